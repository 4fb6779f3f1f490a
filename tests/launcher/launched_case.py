"""What tests of launched programs have in common: an environment without launchers, and worlds that end."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PROGRAM = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 and os.path.exists(sys.argv[1]) else None
DEADLINE_S = 90  # Everything here takes seconds.

NOT_INHERITED = re.compile(
    r"(LOCAL_|GROUP_|ROLE_)?(RANK|WORLD_SIZE)$|MASTER_|TORCHELASTIC_|OMPI_|PMIX?_|MPI_|HYDI?_|SLURM|GLOO_")
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not NOT_INHERITED.match(name)},
    "LC_ALL": "C.UTF-8",
    "OMP_NUM_THREADS": "1",
}


def ranks(*lines):
    """The lines of a world whose ranks are on this host, of (rank, size, local rank)."""
    return sorted("rank %d of %d, here %d, sum %d" % (rank, size, here, size * (size + 1) // 2)
                  for rank, size, here in lines)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Said:
    def __init__(self, status, out, err):
        self.status, self.out, self.err = status, out, err
        self.lines = sorted(line for line in out.splitlines() if line.startswith("rank "))

    def __str__(self):
        return "exit %s\n%s\n%s" % (self.status, self.out, self.err)


class Launched(unittest.TestCase):
    def setUp(self):
        if PROGRAM is None:
            self.fail("usage: %s PROGRAM, which is tests/launcher/launched of a build" % sys.argv[0])

    def folder(self):
        path = tempfile.mkdtemp(prefix="lockstep-launched-")
        self.addCleanup(shutil.rmtree, path, ignore_errors=True)
        return path

    def start(self, command, environment=None):
        """A process in a session of its own; the session ends with the test."""
        process = subprocess.Popen(command, env={**ENVIRONMENT, **(environment or {})}, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
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

    def play(self, command, environment=None):
        return self.ended(self.start(command, environment))

    def assert_says(self, said, lines):
        self.assertEqual(said.status, 0, str(said))
        self.assertEqual(said.lines, lines, str(said))

    def tool(self, name, how):
        path = shutil.which(name)
        if path is None:
            self.skipTest("%s is not installed: %s" % (name, how))
        return path
