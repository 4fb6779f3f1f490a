#!/usr/bin/env python3
"""The plugin of pytest: what fails where only one rank's process would know of it, and what fixtures have changed.

usage: in_failures.py PYTHON [TEST ...]     PYTHON is of an environment that has the package, PyTorch and pytest
"""

import os
import sys
import unittest

import project

CONFTEST = """
import pytest
found = []

@pytest.fixture
def soft():
    return found

@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):  # As plugins of soft assertions do.
    report = (yield).get_result()
    if call.when == "call" and found and call.excinfo is None:
        report.outcome, report.longrepr = "failed", "soft: " + found.pop()
"""
TESTS = """
import threading, unittest, warnings
import pytest, torch.distributed as dist
import conftest, lockstep

class Mine(Warning): pass

@lockstep.world(2)
def test_subtests(subtests):
    for number in range(3):
        with subtests.test("each", number=number):
            assert number != 1

@lockstep.world(2)
def test_skipped_subtest(subtests):
    with subtests.test():
        pytest.skip("this one")

@lockstep.world(2)
def test_soft(rank):
    if rank == 1:
        conftest.found.append("rank 1 is wrong")

@lockstep.world(2)
@pytest.mark.xfail(strict=True)
def test_unexpected_pass(): pass

@lockstep.world(2)
@pytest.mark.xfail
def test_other_pass(): pass

def in_a_thread():
    thread = threading.Thread(target=lambda: 1 / 0)
    thread.start()
    thread.join()

@lockstep.world(2)
def test_thread(): in_a_thread()

@lockstep.world(2)
@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
def test_thread_is_an_error(): in_a_thread()

@lockstep.world(2)
@pytest.mark.filterwarnings("error", "ignore::test_failures.Mine")
def test_ignored_warning(): warnings.warn("planted", Mine)

@lockstep.world(2)
@pytest.mark.filterwarnings("error::test_failures.Mine")
def test_warning_is_an_error():
    with pytest.raises(Mine):
        warnings.warn("planted", Mine)

@lockstep.world(2)
def test_own_warning(): warnings.warn("planted", Mine)

@lockstep.world(2)
def test_returns(rank): return rank == 0

@pytest.mark.parametrize("rank", [4, 8])
@lockstep.world(2)
def test_parameter(rank): assert rank in (4, 8)

@lockstep.world(2)
def test_never_planted():
    lockstep.inject("throw", rank=1, at=7)
    dist.barrier()

@lockstep.world(2)
def test_no_rank(): lockstep.inject("throw", rank=5, at=0)

@lockstep.world(2)
async def test_async(): pass

class TestUnittest(unittest.TestCase):
    def test_subtest_of_unittest(self):
        def body(rank):
            for number in range(3):
                with self.subTest(number=number):
                    self.assertNotEqual(number, 1)
        lockstep.run_world(body, 2)

def test_exit():
    lockstep.run_world(lambda rank: exit(0), 2)
"""
FAIL = {  # What each says.
    "test_subtests[world2]": "in the subtest each, number=1",
    "test_soft[world2]": "soft: rank 1 is wrong[^^]*rank 0: passed",
    "test_unexpected_pass[world2]": "XPASS",
    "test_thread_is_an_error[world2]": "ZeroDivisionError: division by zero",
    "test_never_planted[world2]": "lockstep.inject\\('throw', rank=1, at=7\\) has planted nothing: this rank issued 1 collectives",
    "test_no_rank[world2]": "there is no rank 5 in a world of 2",
    "test_async[world2]": "^an async function cannot be a test in a world|\nan async function cannot be a test in a world",
    "test_subtest_of_unittest": "in the subtest number=1",
    "test_exit": "WorldError: rank 0: SystemExit: 0",
}
CHANGED = """
import pytest
import lockstep

VALUE = 0

class TestClass:
    @classmethod
    def setup_class(cls): cls.value = 5

    @pytest.mark.parametrize("number", range(3))
    @lockstep.world(2)
    def test_class(self, number): assert self.value == 5 and number != 1

@pytest.fixture
def changes():
    global VALUE
    VALUE = 1
    yield
    VALUE = 0

@lockstep.world(2)
def test_changed(changes): assert VALUE == 1

@lockstep.world(2)
def test_after_changed(): assert VALUE == 0
"""

# A GPU that pytest's process has used, as PyTorch tells it, and what CUDA and PyTorch's gradients say in a process forked from it then.
CUDA = """
import pytest, torch, lockstep

@pytest.fixture
def used(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)

@lockstep.world(2)
def test_forked(rank, used):
    raise RuntimeError("Cannot re-initialize CUDA in forked subprocess")

@lockstep.world(2)
def test_gradients(rank, used):
    raise RuntimeError("Unable to handle autograd's threading in combination with fork-based multiprocessing. See ...")

@lockstep.world(2)
def test_other(rank, used): assert False
"""
# A rank in which a driver opens a device's file and pipes at its first use, and one that leaves a pipe alone.
DRIVER = """
import os, sys
import lockstep

@lockstep.world(2)
def test_driver():
    sys.kept = [os.open("/dev/null", os.O_RDONLY), os.pipe()]
    read = os.readlink
    os.readlink = lambda path: "/dev/nvidia0" if read(path) == "/dev/null" and path.endswith(f"/{sys.kept[0]}") else read(path)

@lockstep.world(3)
def test_pipe():
    sys.kept = os.pipe()
"""
# Ranks that all come to the first collective, which is not the same on all.
CROSSED = """
import torch, torch.distributed as dist
import lockstep

@lockstep.world(3)
def test_orders(rank):
    dist.broadcast(torch.ones(3), 0) if rank == 2 else dist.all_reduce(torch.ones(3))

@lockstep.world(2)
def test_root(rank):
    dist.all_reduce(torch.ones(2)) if rank else dist.broadcast(torch.ones(3), 0)

@lockstep.world(2, timeout=3)
def test_sizes(rank): dist.all_reduce(torch.ones(3 + rank))

@lockstep.world(2)
def test_late(rank):
    import time
    time.sleep(2 * rank)
    dist.all_to_all_single(torch.zeros(4 - rank), torch.ones(3 + rank), [1, 3] if rank == 0 else [2, 1], [1, 2] if rank == 0 else [3, 1])
"""
SAYS_CROSSED = {  # test_late passes: its collective is one of two sizes, to which one rank comes late.
    "test_orders[world3]": "ranks 0, 1, 2 of 3 did not end within 1 s; the ranks have issued different collectives[^^]*"
                           "rank 1: waits in allreduce of 3 float32, number 1 of the world at .*\nrank 2: waits in broadcast of 3 float32, number 1",
    "test_root[world2]": "of 2 did not end within 1 s; the ranks have issued different collectives[^^]*rank 0: .* broadcast of 3 float32, number 1 of the world",
    "test_sizes[world2]": "did not end within 3 s\n[^^]*rank \\d: passed; its last collective is allreduce of \\d float32, number 1 of the world at "
                          ".*[^^]*rank \\d: waits in allreduce of \\d float32|ranks 0, 1 of 2 did not end within 3 s\n[^^]*allreduce of 4 float32",
}


class Failures(project.Project):
    def test_ranks_in_different_collectives_are_reported_at_once(self):
        self.write("test_crossed.py", CROSSED)
        for tier in "cold", "warm":
            with self.subTest(tier=tier):
                _, said, results = self.pytest("--lockstep-tier", tier)
                self.assertEqual({name for name, (kind, _) in results.items() if kind == "failure"}, set(SAYS_CROSSED), said)
                for name, says in SAYS_CROSSED.items():
                    self.assert_says(results[name][1], says)

    def test_what_a_rank_alone_knows_fails_its_test(self):
        self.write("conftest.py", CONFTEST)
        self.write("test_failures.py", TESTS)
        for tier in "cold", "warm", "sim":
            with self.subTest(tier=tier):
                _, said, results = self.pytest("--lockstep-tier", tier)
                self.assertEqual(len(results), 18, said)
                self.assertEqual({name for name, (kind, _) in results.items() if kind == "failure"}, set(FAIL), said)
                for name, says in FAIL.items():
                    self.assert_says(results[name][1], says)
                    self.assertNotIn("def perform", results[name][1])  # No source of what runs a test.
                self.assert_says(said, "test_failures.Mine: planted|Mine: planted", "returned a bool: `assert` in place of `return`",
                                 "PytestUnhandledThreadExceptionWarning: Exception in thread")

    def test_what_fixtures_have_changed_is_there_on_each_rank(self):
        self.write("test_changed.py", CHANGED)
        for tier in "cold", "warm", "sim":
            with self.subTest(tier=tier):
                _, said, results = self.pytest("--lockstep-tier", tier)
                self.assertEqual({name: kind for name, (kind, _) in results.items() if kind != "passed"}, {"test_class[world2-1]": "failure"}, said)
                if tier == "warm":
                    self.assert_says(said, r"test_class\[world2-0\]: ran cold: a fixture has changed TestClass.value",
                                     r"test_changed\[world2\]: ran cold: a fixture has changed test_changed.VALUE")
                    self.assertNotIn("test_after_changed", said)

    def test_ranks_forked_behind_a_use_of_cuda_or_gradients_are_explained(self):
        self.write("test_cuda.py", CUDA)
        _, said, _ = self.pytest()
        self.assert_says(said, r"test_forked\[world2\]: pytest's process has used CUDA, so ranks that are forked from it cannot")
        self.assert_says(said, r"test_gradients\[world2\]: pytest's process has run a backward, and this PyTorch keeps threads for those")
        self.assertNotIn("test_other[world2]: pytest's process has", said)

    def test_what_a_gpus_driver_opens_is_none_of_a_test(self):
        self.write("test_driver.py", DRIVER)
        _, said, results = self.pytest("--lockstep-tier", "warm")
        self.assertEqual({kind for kind, _ in results.values()}, {"passed"}, said)
        self.assert_says(said, r"test_pipe\[world3\]: left behind in kept ranks: the file pipe")
        self.assertNotIn("test_driver[world2]", said)


if __name__ == "__main__":
    project.PYTHON = os.path.abspath(sys.argv.pop(1))
    unittest.main()
