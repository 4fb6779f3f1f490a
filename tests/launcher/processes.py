"""Processes that a test starts: each in a session of its own, all of which ends with the test."""

import os
import signal
import subprocess
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
DEADLINE_S = 240  # Everything here takes seconds, and minutes on a machine with ten times the work.


class Said:
    def __init__(self, status, out, err):
        self.status, self.out, self.err = status, out, err
        self.lines = sorted(line for line in out.splitlines() if line.startswith("rank "))

    def __str__(self):
        return "exit %s\n%s\n%s" % (self.status, self.out, self.err)


class Processes(unittest.TestCase):
    environment = dict(os.environ)

    def start(self, command, environment=None, **options):
        process = subprocess.Popen(command, env={**self.environment, **(environment or {})}, start_new_session=True,
                                   text=True, **{"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE,
                                                 "stderr": subprocess.PIPE, **options})
        self.addCleanup(self.end, process)
        return process

    def end(self, process):
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.communicate()

    def ended(self, process):
        try:
            out, err = process.communicate(timeout=DEADLINE_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            self.fail("it did not end in %d s\n%s\n%s" % (DEADLINE_S, *process.communicate()))
        return Said(process.returncode, out, err)

    def result_of(self, command, environment=None, **options):
        return self.ended(self.start(command, environment, **options))
