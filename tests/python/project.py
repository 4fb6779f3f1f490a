"""A project of a user's: files of tests in a folder of their own, which pytest of an environment runs."""

import os
import re
import signal
import subprocess
import tempfile
import time
import unittest
import uuid
import xml.etree.ElementTree

DEADLINE_SECONDS = 300
GUARD_SECONDS_MAX = 30
PYTHON = ""  # Of the environment that has the package, PyTorch and pytest; who runs the tests sets it.
MARKER = "PROJECT_OF_TEST"  # Each process that a run starts, by whatever way, has it in its environment.
signal.signal(signal.SIGINT, signal.default_int_handler)  # A shell has it ignored by what runs in the background, and by what that starts.


class Project(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory(prefix="lockstep-project-")
        self.addCleanup(holder.cleanup)
        self.folder, self.marker = holder.name, uuid.uuid4().hex

    def write(self, name, text):
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
            file.write(text)

    def start(self, *command, **more):
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("LOCKSTEP", "PYTEST", "LD_", "PYTHON"))}
        environment.update({MARKER: self.marker, "PYTHONDONTWRITEBYTECODE": "1"}, **more)
        with open(os.path.join(self.folder, "printed"), "w", encoding="utf-8") as printed:  # No pipe, which what is left would hold open.
            return subprocess.Popen([PYTHON, *command], cwd=self.folder, env=environment, stdin=subprocess.DEVNULL, stdout=printed,
                                    stderr=subprocess.STDOUT, start_new_session=True)  # Its ranks might kill a group.

    def end_of(self, process):
        """Its exit status and what it printed."""
        status = process.wait(timeout=DEADLINE_SECONDS)
        with open(os.path.join(self.folder, "printed"), encoding="utf-8") as printed:
            return status, printed.read()

    def run_python(self, *command, **more):
        return self.end_of(self.start(*command, **more))

    def pytest(self, *arguments, **more):
        """Exit status, what was printed, and of each test its result and all text that a report has of it."""
        report = os.path.join(self.folder, "report.xml")
        status, said = self.run_python("-m", "pytest", "-p", "no:cacheprovider", "--junitxml", report, "-o", "junit_logging=all",
                                       *arguments, **more)
        results = {}
        for case in xml.etree.ElementTree.parse(report).iter("testcase") if os.path.exists(report) else ():
            kinds = [each.tag for each in case if each.tag in ("failure", "error", "skipped")]
            text = "\n".join((each.get("message") or "") + "\n" + (each.text or "") for each in case)
            results[case.get("name")] = (kinds or ["passed"])[0], text
        return status, said, results

    def left(self):
        """The processes that live on. A zombie whose parent has not waited yet has no environment."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    if f"{MARKER}={self.marker}".encode() in file.read():
                        with open(f"/proc/{pid}/cmdline", "rb") as command:
                            found.append((int(pid), command.read().replace(b"\0", b" ").decode()))
            except OSError:
                pass
        return found

    def assert_nothing_is_left(self):
        """The guard ends a moment after the process that it watches."""
        end = time.monotonic() + GUARD_SECONDS_MAX
        while self.left() and time.monotonic() < end:
            time.sleep(0.01)
        found = self.left()
        for pid, _ in found:
            os.kill(pid, signal.SIGKILL)
        self.assertEqual(found, [])

    def wait_for_file(self, name, process):
        end = time.monotonic() + DEADLINE_SECONDS
        while not os.path.exists(os.path.join(self.folder, name)):
            self.assertIsNone(process.poll(), self.end_of(process) if process.poll() is not None else "")
            self.assertLess(time.monotonic(), end, "the run did not come to its ranks")
            time.sleep(0.01)

    def assert_says(self, text, *patterns):
        for pattern in patterns:
            self.assertTrue(re.search(pattern, text), f"no {pattern!r} in:\n{text}")
