#!/usr/bin/env python3
"""The plugin of pytest, with what users of pytest do.

usage: in_pytest.py PYTHON [TEST ...]     PYTHON is of an environment that has the package, PyTorch and pytest
"""

import os
import sys
import unittest

import project

FIXTURES = """
import logging, os, random, sys, warnings
import numpy, pytest, torch, torch.distributed as dist
import lockstep

calls = []

@pytest.fixture(scope="session")
def numbers():
    calls.append(1)
    return [1, 2, 3]

@pytest.fixture
def closure():
    value = 7
    return lambda: value

@pytest.fixture(params=["a", "b"])
def letter(request):
    return request.param

@lockstep.world(2, 3)
@pytest.mark.parametrize("number", [5, 6])
def test_arguments(rank, world_size, number, letter, numbers):
    total = torch.tensor([rank])
    dist.all_reduce(total)
    assert total.item() == sum(range(world_size)) and number in (5, 6) and letter in "ab" and numbers == [1, 2, 3]
    assert (os.environ["RANK"], os.environ["WORLD_SIZE"], os.environ["LOCAL_RANK"]) == (str(rank), str(world_size), str(rank))
    assert dist.get_rank() == rank and dist.get_world_size() == world_size and dist.get_backend() == "gloo"

@lockstep.world(2)
def test_without_arguments():
    dist.barrier()

@lockstep.world(2)
def test_closure(closure):
    assert closure() == 7

@lockstep.world(2)
class TestClass:
    def setup_method(self):
        self.value = 3

    def test_method(self, rank):
        assert self.value == 3 and dist.get_rank() == rank

@lockstep.world(2)
def test_one_folder(rank, tmp_path):
    (tmp_path / f"rank{rank}").touch()
    dist.barrier()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["rank0", "rank1"]

@pytest.fixture
def patched(monkeypatch):
    monkeypatch.setenv("PATCHED", "1")
    monkeypatch.setattr(sys.modules[__name__], "calls", ["patched"])

@lockstep.world(2)
def test_patched(patched):
    assert os.environ["PATCHED"] == "1" and calls == ["patched"]

@lockstep.world(2)
def test_monkeypatch(monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "calls", ["here"])
    assert calls == ["here"]

@lockstep.world(2)
def test_after_monkeypatch():
    assert calls != ["here"]

@lockstep.world(2)
def test_capsys(rank, capsys):
    print("of rank", rank)
    assert capsys.readouterr().out == f"of rank {rank}\\n"

@lockstep.world(2)
def test_caplog(rank, caplog):
    logging.getLogger("of.ours").error("of rank %d", rank)
    assert caplog.messages == [f"of rank {rank}"]

@lockstep.world(2)
def test_warns(rank):
    with pytest.warns(UserWarning, match="of rank"):
        warnings.warn(f"of rank {rank}")

@lockstep.world(2)
def test_recwarn(rank, recwarn):
    warnings.warn(f"of rank {rank}")
    assert len(recwarn) == 1

@lockstep.world(2)
def test_raises():
    with pytest.raises(ZeroDivisionError):
        1 / 0

@lockstep.world(3)
def test_seeds(rank):
    mine = random.random(), numpy.random.rand(), torch.rand(()).item()
    everyone = [None] * 3
    dist.all_gather_object(everyone, mine)
    assert all(len(set(column)) == 3 for column in zip(*everyone))
    print("drawn", *mine)
    assert rank < 0 or "SHOW" not in os.environ

@lockstep.world(2)
def test_collectives(rank):
    assert lockstep.collectives() == []
    dist.broadcast(torch.ones(6, dtype=torch.float64), 0)
    group = dist.new_group([0, 1])
    dist.all_reduce(torch.ones(3), async_op=True).wait()
    ddp = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 2))
    ddp(torch.ones(1, 4)).sum().backward()
    assert [(each.kind, each.bytes, each.group_size) for each in lockstep.collectives()] == [
        ("broadcast", 48, 2), ("allreduce", 12, 2), ("ddp_construction", 0, 2), ("ddp_backward", 40, 2)]

def test_no_world():
    with pytest.raises(RuntimeError, match="is for a rank"):
        lockstep.collectives()

@lockstep.world(1)
def test_alone(world_size):
    dist.barrier()
    assert world_size == 1
"""
OUTCOMES = """
import logging, sys, unittest, warnings
import pytest, torch.distributed as dist
import lockstep

@lockstep.world(2)
def test_skipped():
    pytest.skip("all of us")

@lockstep.world(2)
def test_unittest_skip():
    raise unittest.SkipTest("all of us")

@lockstep.world(2)
def test_importorskip():
    pytest.importorskip("no_such_module")

@lockstep.world(2)
def test_xfail_in_body():
    pytest.xfail("known")

@lockstep.world(2)
@pytest.mark.xfail(raises=KeyError, strict=True)
def test_xfail_mark(rank):
    {}[rank]

@lockstep.world(2)
@pytest.mark.xfail(raises=KeyError)
def test_other_error(rank):
    raise ValueError(rank)

@lockstep.world(2)
def test_output(rank):
    print("out", rank)
    print("err", rank, file=sys.stderr)
    logging.getLogger("of.ours").warning("log %d", rank)
    warnings.warn("a warning of a rank")
    assert rank < 0, "with a reason"

@lockstep.world(2, tier="cold")
def test_capfd(capfd):
    pass
"""
REFUSED = """
import unittest
import pytest, lockstep

@pytest.fixture
def of_rank(rank):
    return rank + 1

@lockstep.world(2)
def test_fixture_of_rank(of_rank):
    pass

def test_no_world(rank):
    pass
"""


class Pytest(project.Project):
    def test_fixtures_and_arguments_are_those_of_pytest(self):
        self.write("test_fixtures.py", FIXTURES)
        for more in (["--lockstep-tier", "cold"], ["--lockstep-tier", "warm"], ["-o", "lockstep_tier=warm", "-s"]):
            with self.subTest(more=more):
                status, said, results = self.pytest(*more)
                self.assertEqual(status, 0, said)
                self.assertEqual(len(results), 24, results.keys())
                is_cold = ["closure", "patched", "capsys", "caplog", "recwarn"] if "cold" not in more else []
                for name in is_cold:
                    self.assert_says(said, rf"test_{name}\[world2\]: ran cold: ")
                self.assertEqual(said.count("ran cold"), len(is_cold), said)
        self.assert_nothing_is_left()

    def test_seeds_are_the_same_again(self):
        self.write("test_fixtures.py", FIXTURES)
        drawn = set()
        for tier in "cold", "cold", "warm":
            _, said, _ = self.pytest("-k", "seeds", "--lockstep-tier", tier, SHOW="1")
            drawn.add(tuple(sorted(line for line in said.splitlines() if line.startswith("drawn"))))
        self.assertEqual(len(drawn), 1, drawn)
        self.assertEqual(len(set(*drawn)), 3, drawn)

    def test_outcomes(self):
        self.write("test_outcomes.py", OUTCOMES)
        for tier in "cold", "warm":
            with self.subTest(tier=tier):
                status, said, results = self.pytest("-rsx", "--lockstep-tier", tier)
                self.assertEqual(status, 1, said)
                kinds = {name.removesuffix("[world2]"): kind for name, (kind, _) in results.items()}
                self.assertEqual(kinds, {
                    "test_skipped": "skipped", "test_unittest_skip": "skipped", "test_importorskip": "skipped",
                    "test_xfail_in_body": "skipped", "test_xfail_mark": "skipped", "test_other_error": "failure",
                    "test_output": "failure", "test_capfd": "failure"}, said)
                self.assert_says(said, r"SKIPPED \[1\] test_outcomes.py:6: all of us", "could not import 'no_such_module'",
                                 "XFAIL .*known", "capfd captures .*use capsys", "a warning of a rank")
                self.assert_says(said, "with a reason", "assert 0 < 0",
                                 "stdout of rank 0 in the call -+\nout 0", "stderr of rank 1 in the call -+\nerr 1",
                                 "log of rank 1 in the call -+\nWARNING  of.ours:test_outcomes.py:\\d+ log 1")

    def test_what_cannot_work_is_a_sentence(self):
        self.write("test_refused.py", REFUSED)
        status, said, _ = self.pytest()
        self.assertEqual(status, 1, said)
        self.assert_says(said, "fixtures run once, in the process of pytest, which is no rank", "is for tests in a world: add @lockstep.world")
        self.write("test_refused.py", "import unittest, lockstep\nclass T(unittest.TestCase):\n    @lockstep.world(2)\n    def test(self): pass\n")
        for arguments, text, sentence in (
                ([], None, "in a class of unittest use lockstep.run_world"),
                (["--lockstep-tier", "sim"], None, "the tier sim is not there yet for tests in Python"),
                (["--lockstep-tier", "hot"], None, "there is no tier 'hot'; the tiers are cold and warm"),
                ([], "import lockstep\n@lockstep.world()\ndef test(): pass\n", "needs the sizes of one or more worlds"),
                ([], "import lockstep, torch.distributed as d\nd.init_process_group('gloo', rank=0, world_size=1, store=d.HashStore())\n"
                     "@lockstep.world(2)\ndef test(): pass\n", "torch.distributed is initialised in the process of the tests")):
            if text:
                self.write("test_refused.py", text)
            status, said, _ = self.pytest(*arguments)
            self.assertIn(status, (1, 2, 4), said)
            self.assert_says(said, sentence)

    def test_options_of_pytest(self):
        self.write("test_many.py", "import lockstep\nfor n in range(5):\n    exec(f'@lockstep.world(2)\\ndef test_{n}(rank): assert rank or {n} not in (1, 3)')")
        _, said, results = self.pytest("-x")
        self.assertEqual(list(results), ["test_0[world2]", "test_1[world2]"], said)
        for more, count in (["-k", "test_2 or test_4"], 2), (["test_many.py::test_2[world2]"], 1), (["-n", "2"], 5), (["-k", "world2"], 5):
            status, said, results = self.pytest(*more)
            if "-n" in more and "unrecognized arguments" in said:
                self.skipTest("this environment has no pytest-xdist")
            self.assertEqual(len(results), count, said)
        self.assert_nothing_is_left()

    def test_last_failed(self):
        self.write("test_many.py", "import lockstep\n@lockstep.world(2, 3)\ndef test_it(rank, world_size): assert world_size == 2\n")
        self.run_python("-m", "pytest")
        status, said = self.run_python("-m", "pytest", "--lf")
        self.assertEqual(status, 1, said)
        self.assert_says(said, "collected 1 item\n", r"test_it\[world3\]", "1 failed in")

    def test_recorded_tests_are_judged(self):
        self.write("test_training.py", TRAINING)
        for tier in "cold", "warm":
            with self.subTest(tier=tier):
                status, said, results = self.pytest("-rA", "--lockstep-tier", tier, "--lockstep-record=" + tier)
                self.assertEqual({name: kind for name, (kind, _) in results.items()},
                                 {"test_right[world2]": "passed", "test_wrong[world2]": "failure", "test_no_training[world2]": "passed",
                                  "test_unjudged[world2]": "passed", "test_throws[world2]": "failure"}, said)
                self.assert_says(results["test_wrong[world2]"][1], "lockstep judge. says", "parameters.are_the_same", "parameters of model 0")
                self.assert_says(said, "not judged: no rank made an update")
                self.assert_says(said, "judge call", "not judged: the parameters are divided")
                self.assert_says(results["test_throws[world2]"][1], "rank 1: ValueError: planted")
                folders = os.listdir(os.path.join(self.folder, tier))
                self.assertEqual(len(folders), 5)
                for each in folders:
                    self.assertEqual(sorted(os.listdir(os.path.join(self.folder, tier, each))), ["rank0.history", "rank1.history"])
        status, said, _ = self.pytest("-k", "right", "--lockstep-record")
        self.assertEqual(status, 0, said)


TRAINING = """
import torch, torch.distributed as dist, lockstep
from torch.distributed.fsdp import fully_shard

def train(rank, mistake=None):
    model = torch.nn.Linear(4, 2)
    ddp = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    for step in range(2):
        optimizer.zero_grad()
        ddp(torch.randn(2, 4)).sum().backward()
        if mistake and rank == 1:
            mistake(model)
        optimizer.step()

def throw(model):
    raise ValueError("planted")

@lockstep.world(2)
def test_right(rank):
    train(rank)

@lockstep.world(2)
def test_wrong(rank):
    train(rank, lambda model: model.weight.grad.mul_(2))

@lockstep.world(2)
def test_no_training(rank):
    dist.barrier()

@lockstep.world(2)
def test_unjudged(rank):
    model = fully_shard(torch.nn.Linear(4, 2))  # Each rank has a part of it, which no other rank has.
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(2):
        optimizer.zero_grad()
        model(torch.randn(2, 4)).sum().backward()
        optimizer.step()

@lockstep.world(2)
def test_throws(rank):
    train(rank, throw)
"""

if __name__ == "__main__":
    project.PYTHON = os.path.abspath(sys.argv.pop(1))
    unittest.main()
