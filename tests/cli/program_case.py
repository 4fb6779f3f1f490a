"""lockstep_toys as a black box: every test has a folder of its own, and nothing may be left running.

LOCKSTEP_TOYS names the program. With LOCKSTEP_APPROVE=1 the golden files are written, not compared.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import uuid

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

from marked import children, marked

PROGRAM = os.environ.get("LOCKSTEP_TOYS", "")
APPROVE = os.environ.get("LOCKSTEP_APPROVE") == "1"
PATIENCE_S = 300  # Only a broken program takes this long; on a busy machine one took 120.

# Text that differs from run to run, and its replacement.
UNSTABLE = (
    (re.escape(PROGRAM), "./lockstep"),
    (r"::stop-commands::[0-9a-f]{32}\b", "::stop-commands::TOKEN"),
    (r"(?m)^::[0-9a-f]{32}::$", "::TOKEN::"),
    (r"runs/\d{8}-\d{6}-[0-9a-f]{4}", "runs/RUN"),
    (r"libtorch \d[^ ]*", "libtorch VERSION"),
    (r"\d+ cores?\b", "N cores"),
    (r"(?m)^(  (?:\033\[\d+m)?[A-Z]+(?:\033\[0m)?) +\d+\.\ds  ", r"\1  TIME  "),
    (r"   \d+\.\d s\b", "   TIME"),
    (r"( tried on \w+ in )\d+\.\d s\b", r"\1TIME"),
    # Frames of libc and of threads of its own: a machine's, not the program's.
    (r"(?m)(rank \d+ was in\n)(?:    \| .*\n)+", r"\1    | STACK\n"),
)

# Lines that a busy machine adds on stderr: counter lines and slow cases.
BUSY = r"(?m)^(\[\d+/\d+\] .* cases?  \d+ s(?:, about \d+ (?:s|min) left)?  .*|slow: .*)\n"


class ProgramCase(unittest.TestCase):
    def setUp(self):
        if not os.path.exists(PROGRAM):
            self.fail("LOCKSTEP_TOYS=%s names no program" % PROGRAM)
        self.folder = tempfile.mkdtemp(prefix="lockstep toys ")  # A space, since some have one.
        self.addCleanup(shutil.rmtree, self.folder)
        self.temporary = os.path.join(self.folder, "tmp")
        os.mkdir(self.temporary)
        self.mark = "TOYS_MARK=" + uuid.uuid4().hex
        self.file = os.path.join(self.folder, "file")  # Tells toys.change_mind of its first run.
        self.pipe = os.path.join(self.folder, "pipe")  # What toys.wait waits for.
        self.environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("LOCKSTEP_", "LC_", "TOYS_", "GITHUB_", "SLURM_", "CI_NODE_", "CIRCLE_"))
            and name not in ("LANG", "NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE")
        }
        name, value = self.mark.split("=")
        self.environment.update(
            {name: value, "LANG": "C.UTF-8", "TMPDIR": self.temporary, "TOYS_FILE": self.file})

    def tearDown(self):
        left = self.left_running()
        for process in left:
            os.kill(process, signal.SIGKILL)
        self.assertEqual(left, [], "processes were left running")
        self.assertEqual(os.listdir(self.temporary), [], "temporary files were left")

    def left_running(self):
        """The processes that still run two seconds later: a server may take as long to see its runner die."""
        until = time.monotonic() + 5
        while marked(self.mark) and time.monotonic() < until:
            time.sleep(0.02)
        return marked(self.mark)

    def start(self, *arguments, **environment):
        # One tier's results are what most tests are about; test_tiers.py is about the tiers.
        if arguments[:1] == ("run",) and not {"--tier", "--thorough"} & set(arguments):
            arguments = ("run", "--tier", "cold", *arguments[1:])
        return self.start_as_given(*arguments, **environment)

    def start_as_given(self, *arguments, **environment):
        return subprocess.Popen(
            [PROGRAM, *arguments], cwd=self.folder, env={**self.environment, **environment},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def finish(self, process):
        """Exit status, stdout, stderr."""
        try:
            out, err = process.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            self.fail("it did not end\n" + out + err)
        return process.returncode, out, err

    def run_program(self, *arguments, **environment):
        return self.finish(self.start(*arguments, **environment))

    def path(self, *names):
        return os.path.join(self.folder, ".lockstep", *names)

    def latest(self):
        with open(self.path("runs", "latest", "run.json"), encoding="utf-8") as file:
            return json.load(file)

    def events(self):
        """Whole lines of the latest run but for the canaries', which run first; none before there is one."""
        try:
            with open(self.path("runs", "latest", "events.jsonl"), encoding="utf-8") as file:
                events = [json.loads(line) for line in file if line.endswith("\n")]
            return [event for event in events if not event.get("scenario", "").startswith("canary.")]
        except FileNotFoundError:
            return []

    def wait_until(self, condition, process):
        until = time.monotonic() + PATIENCE_S
        while not condition():
            if process.poll() is not None or time.monotonic() > until:
                process.kill()
                self.fail("it never came to that: %s" % (process.communicate(),))
            time.sleep(0.01)

    def start_waiting(self, *arguments):
        """A run of toys.wait, once a case of it is being run."""
        os.mkfifo(self.pipe)
        process = self.start("run", "toys.wait", "--seed", "7", *arguments, TOYS_PIPE=self.pipe)
        self.wait_until(lambda: any(event["event"] == "case" for event in self.events()), process)
        return process

    def release(self):
        """Ends all waiting: a rank that opens the pipe from now on finds a file; for one that waits, or has just found
        the pipe, a writer stays there."""
        with open(self.file, "w", encoding="ascii"):
            pass
        os.link(self.pipe, self.pipe + " kept")
        os.replace(self.file, self.pipe)
        self.addCleanup(os.close, os.open(self.pipe + " kept", os.O_RDWR))

    def transcript(self, *arguments, **environment):
        """A command with all that it answers, as a golden file holds it."""
        status, out, err = self.run_program(*arguments, **environment)
        err = re.sub(BUSY, "", err)
        quoted = [argument if re.fullmatch(r"[\w./=,@%+*-]+", argument) else "'%s'" % argument
                  for argument in arguments]
        text = "$ lockstep %s\n%s" % (" ".join(quoted), out)
        if err:
            text += "stderr:\n" + err
        text += "exit %d\n" % status
        for pattern, stable in UNSTABLE:
            text = re.sub(pattern, stable, text)
        return text

    @staticmethod
    def open_golden(name, mode="r"):
        return open(os.path.join(HERE, "golden", name + ".txt"), mode, encoding="utf-8", newline="")

    def golden(self, name):
        with self.open_golden(name) as file:
            return file.read()

    def assert_golden(self, name, text):
        if APPROVE:
            with self.open_golden(name, "w") as file:
                file.write(text)
        self.assertEqual(text, self.golden(name), "LOCKSTEP_APPROVE=1 approves what it says now")
