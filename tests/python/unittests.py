"""Tests of unittest in worlds, which in_parity.py runs without pytest."""

WITHOUT_PYTEST = """
import functools, os, signal, sys, time, unittest
import torch, torch.distributed as dist
import lockstep
from torch.nn.parallel import DistributedDataParallel

def total(rank, add=0):
    value = torch.tensor([rank + add])
    dist.all_reduce(value)
    return rank, value.item()

def throws(rank):
    if rank == 1:
        raise KeyError("planted")
    dist.barrier()

def dies(rank):
    os.kill(os.getpid(), signal.SIGKILL * (rank == 2))
    dist.barrier()

def hangs(rank):
    time.sleep(1000 * rank)

def skips(rank):
    raise unittest.SkipTest("not here")

def unsendable(rank):
    return lambda: rank

def pid(rank):
    return os.getpid()

class Worlds(unittest.TestCase):
    tier = "cold"

    def run_world(self, function, size, *args, **more):
        return lockstep.run_world(function, size, *args, tier=self.tier, **more)

    def test_values(self):
        self.assertEqual(self.run_world(total, 3), [(0, 3), (1, 3), (2, 3)])
        self.assertEqual(self.run_world(total, 2, 5), [(0, 11), (1, 11)])

    def test_throws(self):
        with self.assertRaisesRegex(KeyError, "planted") as caught:
            self.run_world(throws, 3)
        notes = "\\n".join(caught.exception.__notes__)
        for text in "rank 1 of 3 failed", "rank 0: waits in barrier", "line 14, in throws", "rank 2's stack", "in throws":
            self.assertIn(text, notes)

    def test_dies(self):
        with self.assertRaisesRegex(lockstep.WorldError, "rank 2 of 3 died by SIGKILL"):
            self.run_world(dies, 3)
        self.test_values()

    def test_hangs(self):
        with self.assertRaisesRegex(lockstep.WorldError, "rank 1 of 2 did not end within 3 s"):
            self.run_world(hangs, 2, timeout=3)

    def test_skips(self):
        with self.assertRaisesRegex(unittest.SkipTest, "not here"):
            self.run_world(skips, 2)

    def test_unsendable(self):
        with self.assertRaisesRegex(Exception, "pickle"):
            self.run_world(unsendable, 2)

class Kept(Worlds):
    tier = "warm"

    def test_ranks_are_kept(self):
        self.assertEqual(self.run_world(pid, 2), self.run_world(pid, 2))

class Simulated(Worlds):
    tier = "sim"

    def test_a_local_function(self):
        add = 4
        self.assertEqual(self.run_world(lambda rank: total(rank, add), 2), [(0, 9), (1, 9)])

    def test_too_many(self):
        with self.assertRaisesRegex(ValueError, "at most 1,024 ranks, not 2,000"):
            self.run_world(total, 2000)

    def test_throws(self):
        with self.assertRaisesRegex(KeyError, "planted") as caught:
            self.run_world(throws, 3)
        for text in "rank 1 of 3 failed", "rank 0: failed: RuntimeError: rank 1 never came to collective #0", "line 14, in throws":
            self.assertIn(text, "\\n".join(caught.exception.__notes__))

    def test_hangs(self):
        with self.assertRaisesRegex(lockstep.WorldError, "rank 1 of 2 did not end within 3 s, and the others wait"):
            self.run_world(hangs, 2, timeout=3)

class Refused(unittest.TestCase):
    def refuses(self, kind, text, call, *given, **more):
        with self.assertRaisesRegex(kind, text):
            call(*given, **more)

    def test_worlds(self):
        run = lockstep.run_world
        self.refuses(ValueError, "worlds are one or more numbers of ranks, such as .2, 3., not .0,.", run, total, 0)
        self.refuses(ValueError, "the tier launched is one of a whole run of pytest", run, total, 2, tier="launched")
        self.refuses(TypeError, "run_world calls a function of the rank, and 3 is none", run, 3, 2)
        for seconds in -1, 0, "5", float("nan"):
            self.refuses(ValueError, "a timeout is a number of seconds above 0, not ", run, total, 2, timeout=seconds)

    def test_training(self):
        same = lockstep.same_as_one_process
        self.refuses(ValueError, "worlds are one or more numbers of ranks, such as .2, 3., not 2", same, total, worlds=2)
        self.refuses(ValueError, "'3' steps are none to compare", same, total, steps="3")
        self.refuses(ValueError, "'gone.py' is neither a function of a context nor a program's file", same, "gone.py")
        self.refuses(ValueError, "None is neither a function of a context nor a program's file", same, None)
        self.refuses(ValueError, "arguments and batch_size are those of a program", same, total, batch_size="--batch-size")

class Callables(unittest.TestCase):
    def test_a_partial_function(self):
        self.assertEqual(lockstep.run_world(functools.partial(total, add=3), 2), [(0, 7), (1, 7)])

if __name__ == "__main__":
    unittest.main()
"""
