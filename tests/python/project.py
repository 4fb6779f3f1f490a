"""A project of a user's: files of tests in a folder of their own, which pytest of an environment runs."""

import atexit
import functools
import json
import os
import re
import select
import signal
import subprocess
import tempfile
import time
import unittest
import uuid
import xml.etree.ElementTree

from zygote import MARKER

DEADLINE_SECONDS = 1200  # ten of these files run at once on two cores
GUARD_SECONDS_MAX = 120
PYTHON = ""  # Of the environment that has the package, PyTorch and pytest; who runs the tests sets it.
signal.signal(signal.SIGINT, signal.default_int_handler)  # A shell has it ignored by what runs in the background, and by what that starts.

NOT_INHERITED = "LOCKSTEP", "PYTEST", "LD_", "PYTHON"


def environment(marker, more):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(NOT_INHERITED)}
    return {**kept, MARKER: marker, "PYTHONDONTWRITEBYTECODE": "1", **more}


@functools.cache
def zygote():
    """The process that forks those of all runs."""
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "zygote.py")
    started = subprocess.Popen([PYTHON, "-B", program], env=environment("0" * 32, {}), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    atexit.register(started.communicate)
    return started


def ask_zygote(**request):
    zygote().stdin.write(json.dumps(request) + "\n")
    zygote().stdin.flush()
    return json.loads(zygote().stdout.readline())


class Forked:
    """A process of the zygote, with what subprocess.Popen has for its own."""

    def __init__(self, **request):
        self.status = None
        self.pid = ask_zygote(**request)
        self.handle = os.pidfd_open(self.pid)

    def poll(self, seconds=0):
        if self.status is None and select.select([self.handle], [], [], seconds)[0]:
            os.close(self.handle)
            self.status = ask_zygote(ended=self.pid)
        return self.status

    def wait(self, timeout):
        if self.poll(timeout) is None:
            raise subprocess.TimeoutExpired(f"the process {self.pid}", timeout)
        return self.status

    def send_signal(self, number):
        os.kill(self.pid, number)


class Project(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory(prefix="lockstep-project-")
        self.addCleanup(holder.cleanup)
        self.folder, self.marker = holder.name, uuid.uuid4().hex

    def write(self, name, text):
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
            file.write(text)

    def start(self, *command, printed="printed", **more):
        """A program of code or with a PYTHONPATH has an interpreter of its own; with LOCKSTEP_FRESH=1 all have."""
        given, printed = environment(self.marker, more), os.path.join(self.folder, printed)
        if command[0] != "-c" and "PYTHONPATH" not in more and not os.environ.get("LOCKSTEP_FRESH"):
            return Forked(command=command, folder=self.folder, environment=given, printed=printed)
        with open(printed, "w", encoding="utf-8") as file:  # No pipe, which what is left would hold open.
            return subprocess.Popen([PYTHON, *command], cwd=self.folder, env=given, stdin=subprocess.DEVNULL, stdout=file,
                                    stderr=subprocess.STDOUT, start_new_session=True)  # Its ranks might kill a group.

    def end_of(self, process, printed="printed"):
        """Its exit status and what it printed."""
        status = process.wait(timeout=DEADLINE_SECONDS)
        with open(os.path.join(self.folder, printed), encoding="utf-8") as file:
            return status, file.read()

    def run_python(self, *command, **more):
        return self.end_of(self.start(*command, **more))

    def pytest(self, *arguments, files=("",), **more):
        """Exit status, what was printed, and of each test its result and all text that a report has of it. Each file is a run of its own,
        all at once; the status is the largest."""
        runs = {name: self.start("-m", "pytest", "-p", "no:cacheprovider", "--junitxml", os.path.join(self.folder, f"report{name}.xml"), "-o",
                                 "junit_logging=all", *arguments, *filter(None, [name]), printed=f"printed{name}", **more) for name in files}
        ends, results = [self.end_of(process, f"printed{name}") for name, process in runs.items()], {}
        for name in files:
            report = os.path.join(self.folder, f"report{name}.xml")
            for case in xml.etree.ElementTree.parse(report).iter("testcase") if os.path.exists(report) else ():
                kinds = [each.tag for each in case if each.tag in ("failure", "error", "skipped")]
                text = "\n".join((each.get("message") or "") + "\n" + (each.text or "") for each in case)
                results[case.get("name")] = (kinds or ["passed"])[0], text
        return max(status for status, _ in ends), "".join(said for _, said in ends), results

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
