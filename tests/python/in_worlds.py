#!/usr/bin/env python3
"""The plugin of pytest, with tests of a user's project: what fails, how that is reported, and that nothing is left.

usage: in_worlds.py PYTHON [TEST ...]     PYTHON is of an environment that has the package, PyTorch, pytest and pytest-xdist
"""

import os
import re
import signal
import sys
import unittest

import planted
import project


FILES = 4  # At a time, since most hang.

# As a release of PyTorch may do that asks a backend for more.
UNMADE = """
import lockstep
from lockstep import _simulated_groups

def refuse(*_, **__): raise ValueError("planted")

_simulated_groups.make_simulated_group = refuse

@lockstep.world(2)
def test_never_begins(rank): raise AssertionError
"""


class Planted(project.Project):
    """Each planted mistake is named rightly, the test after it passes, and nothing is left of it."""

    def check(self, tier):
        files = [f"test_planted{number}.py" for number in range(FILES)]
        for number, name in enumerate(files):
            self.write(name, planted.file_of(planted.FAILING[number::FILES], tier))
        status, said, results = self.pytest("--lockstep-tier", tier, files=files)
        self.assertEqual(status, 1, said)
        for each in planted.FAILING:
            with self.subTest(planted=each.name, tier=tier):
                kind, text = results[f"test_{each.name}[world3]"]
                self.assertEqual(kind, "failure", said)
                self.assert_says(text, *(planted.IN_SIMULATION.get(each.name, each.says) if tier == "sim" else each.says))
                self.assertNotIn("lockstep_recorder", text)  # No frames of what watches.
                self.assertEqual(results[f"test_after_{each.name}[world3]"][0], "passed", results[f"test_after_{each.name}[world3]"][1])
        self.assert_nothing_is_left()

    def test_a_group_that_cannot_be_made_is_named(self):
        self.write("test_unmade.py", UNMADE)
        status, said, results = self.pytest("--lockstep-tier", "sim")
        self.assertEqual(status, 1, said)
        self.assert_says(results["test_never_begins[world2]"][1], "rank 0 of 2 failed", "rank 1: failed: ValueError: planted")

    def test_each_is_named_cold(self):
        self.check("cold")

    def test_each_is_named_warm(self):
        self.check("warm")

    def test_each_is_named_in_simulation(self):
        self.check("sim")

    def test_worlds_are_large_and_ranks_have_their_own(self):
        self.write("test_large.py", LARGE)
        status, said, _ = self.pytest("--lockstep-tier", "sim")
        self.assertEqual(status, 0, said)
        self.assertNotIn("ran cold", said)
        self.assert_nothing_is_left()

    def test_what_is_left_behind_is_reported(self):
        self.write("test_leaks.py", planted.file_of(planted.LEAKS))
        for tier in "warm", "cold":
            status, said, results = self.pytest("--lockstep-tier", tier)
            self.assertEqual(status, 0, said)
            self.assertEqual(len(results), 1 + 2 * len(planted.LEAKS))
            for each in planted.LEAKS:
                with self.subTest(planted=each.name, tier=tier):
                    told = [line for line in said.splitlines() if re.match(rf"test_leaks.py::test_{each.name}\[world3\]: (left|the default group)", line)]
                    self.assertEqual(len(told), int(tier == "warm"), said)
                    if told:
                        self.assert_says(told[0], *each.says)
            self.assertNotIn("test_after", said)
        self.assert_nothing_is_left()

    def test_what_the_last_test_left_behind_is_reported(self):
        self.write("test_last.py", planted.file_of([each for each in planted.LEAKS if each.name == "unmatched"]))
        status, said, _ = self.pytest("--lockstep-tier", "warm", "-k", "not after")
        self.assertEqual(status, 0, said)
        self.assert_says(said, r"test_last.py::test_unmatched\[world3\]: the default group does not work any more; the kept ranks were replaced")

    def test_a_kept_rank_that_died_is_replaced(self):
        self.write("test_died.py", DIED)
        status, said, _ = self.pytest("--lockstep-tier", "warm")
        self.assertEqual(status, 0, said)
        self.assert_says(said, r"test_third\[world3\]: after test_died.py::test_first\[world3\], rank 1 died by SIGKILL; the kept ranks were replaced")
        self.assert_nothing_is_left()


LARGE = """
import os, random, warnings
import lockstep, numpy, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

def gathered(value):
    all_values = [torch.zeros(1, dtype=torch.float64) for _ in range(dist.get_world_size())]
    dist.all_gather(all_values, torch.tensor([value], dtype=torch.float64))
    return [each.item() for each in all_values]

@lockstep.world(64, 200)
def test_a_training(rank, world_size):
    ddp = DistributedDataParallel(torch.nn.Linear(2, 1))
    ddp(torch.full((1, 2), float(rank))).sum().backward()
    assert torch.allclose(ddp.module.weight.grad, torch.full((1, 2), (world_size - 1) / 2))

@lockstep.world(5)
def test_each_rank_has_its_own(rank, monkeypatch):
    for draw in random.random, numpy.random.rand, lambda: torch.rand(1).item():
        first = draw()
        assert len(set(gathered(first))) == 5  # Ranks run in between.
        assert draw() != first
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        dist.barrier()
        warnings.warn(f"of rank {rank}")
        dist.barrier()
    assert [str(each.message) for each in seen] == [f"of rank {rank}"]
    assert (os.environ["RANK"], os.environ["WORLD_SIZE"]) == (str(rank), "5")
    parts = [0, 1], [2, 3], [4]
    groups = [dist.new_group(part) for part in parts]
    dist.all_reduce(number := torch.tensor([float(rank)]), group=groups[rank // 2])
    assert number.item() == sum(parts[rank // 2])

import pytest
from torch.distributed import new_group

@pytest.fixture
def local():
    return lambda: 3.0

@lockstep.world(3)
def test_values_that_cannot_be_pickled(rank, local):
    os.environ["OF_RANK"] = str(rank)
    dist.all_reduce(ones := torch.ones(7))
    assert ones.tolist() == [local()] * 7 and os.environ["OF_RANK"] == str(rank)

class TestOwn:
    @pytest.fixture(autouse=True)
    def prepare(self):
        self.seen = []

    @lockstep.world(2)
    def test_self(self, rank):
        self.seen.append(rank)
        dist.barrier()
        assert self.seen == [rank]

@lockstep.world(2)
def test_groups_of_the_same_ranks_are_two(rank):
    some, others = new_group([0, 1]), new_group([0, 1])
    one, two = torch.ones(1), torch.full((1,), 2.0)
    order = [(one, some), (two, others)]
    works = [dist.all_reduce(tensor, group=group, async_op=True) for tensor, group in (order if rank else order[::-1])]
    for work in works:
        work.wait()
    assert (one.item(), two.item()) == (2, 4)
    dist.destroy_process_group(others)
"""
DIED = """
import os, pathlib, select, signal
import lockstep, torch.distributed as dist

@lockstep.world(3)
def test_first(rank):
    pathlib.Path(f"pid{rank}").write_text(str(os.getpid()))

def test_second():
    handle = os.pidfd_open(pid := int(pathlib.Path("pid1").read_text()))
    os.kill(pid, signal.SIGKILL)
    select.select([handle], [], [])

@lockstep.world(3)
def test_third(rank):
    dist.barrier()
"""
ENDLESS = """
import os, pathlib, subprocess, time
import lockstep

@lockstep.world(3)
def test_endless(rank, tmp_path):
    subprocess.Popen(["sleep", "1000"])
    pathlib.Path(f"rank{rank}").touch()
    time.sleep(1000)
"""
WITHOUT_PYTEST = """
import lockstep, test_endless
lockstep.run_world(test_endless.test_endless, 3, None, tier={tier!r})
"""


class Endings(project.Project):
    """However the run of the tests ends, nothing of it is left: ranks, and programs that they started."""

    def end(self, by, command, exit_status):
        self.write("test_endless.py", ENDLESS)
        process = self.start(*command)
        for rank in range(3):
            self.wait_for_file(f"rank{rank}", process)
        self.assertGreaterEqual(len(self.left()), 7)  # This run, and its ranks with a program each.
        process.send_signal(by)
        status, said = self.end_of(process)
        self.assertEqual(status, exit_status, said)
        self.assert_nothing_is_left()
        for rank in range(3):
            os.remove(os.path.join(self.folder, f"rank{rank}"))

    def test_nothing_is_left_of_a_run_that_ends(self):
        with self.subTest(by="SIGKILL of xdist"):
            self.end(signal.SIGKILL, ["-m", "pytest", "-n", "2"], -signal.SIGKILL)
        for tier in "cold", "warm":
            self.write("main.py", WITHOUT_PYTEST.format(tier=tier))
            for by, status in (signal.SIGKILL, -signal.SIGKILL), (signal.SIGINT, 2):
                with self.subTest(tier=tier, by=by):
                    self.end(by, ["-m", "pytest", "--lockstep-tier", tier], status)
            with self.subTest(tier=tier, without="pytest"):
                self.end(signal.SIGKILL, ["main.py"], -signal.SIGKILL)


if __name__ == "__main__":
    project.PYTHON = os.path.abspath(sys.argv.pop(1))
    unittest.main()
