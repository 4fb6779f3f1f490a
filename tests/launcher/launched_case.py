"""Shared parts of the tests of launched programs: an environment without launchers, and worlds that end."""

import os
import re
import shutil
import socket
import sys
import tempfile

from processes import Processes

PROGRAM = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 and os.path.exists(sys.argv[1]) else None

NOT_INHERITED = re.compile(
    r"(LOCAL_|GROUP_|ROLE_)?(RANK|WORLD_SIZE)$|MASTER_|TORCHELASTIC_|OMPI_|PMIX?_|MPI_|HYDI?_|SLURM|GLOO_")
FULL_BOAT = ["--oversubscribe"] + (["--allow-run-as-root"] if os.getuid() == 0 else [])  # of Open MPI
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


class Launched(Processes):
    environment = ENVIRONMENT

    def setUp(self):
        if PROGRAM is None:
            self.fail("usage: %s PROGRAM, which is tests/launcher/launched of a build" % sys.argv[0])

    def folder(self):
        path = tempfile.mkdtemp(prefix="lockstep-launched-")
        self.addCleanup(shutil.rmtree, path, ignore_errors=True)
        return path

    def assert_says(self, said, lines):
        self.assertEqual(said.status, 0, str(said))
        self.assertEqual(said.lines, lines, str(said))

    def tool(self, name, how):
        path = shutil.which(name)
        if path is None:
            self.skipTest("%s is not installed: %s" % (name, how))
        return path
