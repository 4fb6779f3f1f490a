"""Shared parts of the tests of launched campaigns: a world by hand, and nothing that is left running.

A test file's arguments: LOCKSTEP_TOYS LOCKSTEP [TEST ...]
"""

import json
import os
import signal
import sys
import time
import uuid

LOCKSTEP = os.path.abspath(sys.argv.pop(2)) if len(sys.argv) > 2 and os.path.exists(sys.argv[2]) else None

from launched_case import ENVIRONMENT, PROGRAM, Launched, free_port
from processes import DEADLINE_S, HERE

sys.path.insert(0, os.path.dirname(HERE))

from marked import marked


class Campaign(Launched):
    def setUp(self):
        super().setUp()
        self.out = self.folder()
        self.mark = "CAMPAIGN_MARK=" + uuid.uuid4().hex
        self.environment = {**ENVIRONMENT, "TMPDIR": self.folder()}
        self.environment.update([self.mark.split("=")])

    def tearDown(self):
        until = time.monotonic() + 5
        while marked(self.mark) and time.monotonic() < until:
            time.sleep(0.02)
        left = marked(self.mark)
        for process in left:
            os.kill(process, signal.SIGKILL)
        self.assertEqual(left, [], "processes were left running")
        ours = [name for name in os.listdir(self.environment["TMPDIR"]) if name.startswith("lockstep")]
        self.assertEqual(ours, [], "temporary files were left")

    def run_of(self, *arguments, program=PROGRAM, tier="launched", out="out"):
        return [program, "run", "--tier", tier, "--seed", "7", "--out", os.path.join(self.out, out), *arguments]

    def by_hand(self, size, command, ranks=None, **variables):
        """Some ranks of a world, all by default; `command` may be one for each."""
        port = str(free_port())
        self.world = {"WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, **variables}
        return [self.start(command if isinstance(command[0], str) else command[rank], {"RANK": str(rank), **self.world})
                for rank in (range(size) if ranks is None else ranks)]

    def all_ended(self, world):
        return [self.ended(process) for process in world]

    def assert_only_rank_zero_speaks(self, said, status):
        self.assertEqual([one.status for one in said], [status] + [0] * (len(said) - 1), "\n".join(map(str, said)))
        for one in said[1:]:
            self.assertEqual((one.out, one.err), ("", ""))

    def results(self, out="out"):
        with open(os.path.join(self.out, out, "runs", "latest", "run.json"), encoding="utf-8") as file:
            return json.load(file)["results"]

    def wait_until(self, condition, world):
        until = time.monotonic() + DEADLINE_S
        while not condition():
            if time.monotonic() > until or any(process.poll() is not None for process in world):
                for process in world:
                    process.kill()
                self.fail("it never came to that: %s" % [process.communicate() for process in world])
            time.sleep(0.01)

    def waiting_rank(self, rank):
        """The process of a rank of toys.wait, which has said so itself: other processes are a canary's or a server's.
        None before."""
        try:
            with open(os.path.join(self.out, "pipe rank%d" % rank), encoding="ascii") as file:
                said = file.read()
        except FileNotFoundError:
            return None
        return int(said) if said.endswith("\n") else None

    def wait_for_waiting_ranks(self, size, world):
        self.wait_until(lambda: all(self.waiting_rank(rank) for rank in range(size)), world)

    def waiting_world(self, size, *arguments):
        """A world in the middle of a case that takes until the test ends it."""
        pipe = os.path.join(self.out, "pipe")
        os.mkfifo(pipe)
        world = self.by_hand(size, self.run_of("toys.wait", "--timeout", "60", *arguments), TOYS_PIPE=pipe)
        self.wait_for_waiting_ranks(size, world)
        return world

    def release(self):
        """Ends all waiting: a rank that opens the pipe from now on finds a file; for one that waits, or has just found
        the pipe, a writer stays there."""
        pipe = os.path.join(self.out, "pipe")
        with open(pipe + " file", "w", encoding="ascii"):
            pass
        os.link(pipe, pipe + " kept")
        os.replace(pipe + " file", pipe)
        self.addCleanup(os.close, os.open(pipe + " kept", os.O_RDWR))
