#!/usr/bin/env python3
"""Tests of Hypothesis in worlds: one draw for all ranks, the smallest example that fails, and what a body cannot do.

usage: in_hypothesis.py PYTHON [TEST ...]     PYTHON is of an environment that has the package, PyTorch, pytest and Hypothesis
"""

import os
import re
import sys
import unittest

import project

TIERS = "cold", "warm", "sim"
PASSING = """
import lockstep, pytest, torch, torch.distributed as dist
from hypothesis import HealthCheck, assume, event, example, given, note, reject, settings, strategies as st, target

FEW = settings(max_examples=5, database=None)

@pytest.fixture(scope="module")
def ten():
    return 10

@lockstep.world(2, 3)
@FEW
@given(numbers=st.lists(st.integers(-2**31, 2**31), min_size=1, max_size=4))
def test_all_ranks_have_one_example(rank, world_size, numbers, ten):
    everyone = [None] * world_size
    dist.all_gather_object(everyone, numbers)
    assert all(each == numbers for each in everyone) and dist.get_rank() == rank and ten == 10

@given(st.integers(0, 9))
@FEW
@lockstep.world(2)
@pytest.mark.parametrize("most", [9, 10])
def test_decorators_in_another_order(most, number):
    dist.barrier()
    assert 0 <= number <= most

@lockstep.world(2, 3)
class TestMethods:
    def setup_method(self):
        self.value = 3

    @FEW
    @given(number=st.integers(0, 5))
    def test_method(self, rank, number):
        assert self.value == 3 and dist.get_rank() == rank and number >= 0

@lockstep.world(2)
@settings(max_examples=20, database=None)
@given(number=st.integers(0, 100))
@example(number=-2)
def test_words_of_hypothesis(rank, number):
    if number == 50:
        reject()
    assume(number % 2 == 0)
    dist.barrier()
    event("even")
    target(float(number))
    note("said")
    assert number % 2 == 0

@lockstep.world(2)
@settings(max_examples=3, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(number=st.integers(0, 100))
def test_own_fixture(rank, number, monkeypatch, tmp_path):
    assert "NUMBER" not in __import__("os").environ and tmp_path.is_dir()
    monkeypatch.setenv("NUMBER", str(number))

@lockstep.world(2)
@FEW
@given(number=st.integers(0, 100))
def test_each_example_draws_the_same(rank, number):
    print("drawn", rank, torch.rand(()).item())

@lockstep.world(2)
def test_after_all(rank):
    dist.barrier()
"""
FAILING = """
import lockstep, os, pytest, torch, torch.distributed as dist
from hypothesis import assume, given, note, settings, strategies as st

@lockstep.world(2)
@settings(database=None)
@given(numbers=st.lists(st.integers(0, 1000), max_size=5))
def test_shrinks(rank, numbers):
    note(f"seen by {rank}")
    print("printed", sum(numbers))
    dist.all_reduce(total := torch.tensor([sum(numbers)]))
    assert rank == 0 or total.item() < 300

@lockstep.world(2)
@settings(database=None)
@given(number=st.integers(0, 1000))
def test_two_errors(rank, number):
    if number > 800:
        raise ValueError(number)
    if number > 300:
        raise ValueError("smaller")

@lockstep.world(2)
@settings(database=None, max_examples=20)
@given(number=st.integers(0, 1000))
def test_ranks_disagree(rank, number):
    assume(rank or number < 10)

@lockstep.world(2)
@settings(database=None, max_examples=20)
@given(data=st.data())
def test_draws_in_the_body(data):
    data.draw(st.integers())

@lockstep.world(2)
@given(number=st.integers())
def test_function_scope(rank, number, tmp_path):
    pass

@lockstep.world(2)
@settings(database=None)
@given(number=st.integers(0, 1000))
def test_dies(rank, number):
    if number >= 900 and rank == 1:
        os._exit(3)

@lockstep.world(2)
def test_after_all(rank):
    dist.all_reduce(total := torch.ones(1))
    assert total.item() == 2
"""
HANGING = """
import lockstep, torch, torch.distributed as dist
from hypothesis import given, settings, strategies as st

@lockstep.world(3)
@settings(database=None, max_examples=30)
@given(steps=st.lists(st.integers(0, 9), min_size=3, max_size=3))
def test_hangs(rank, steps):
    for _ in range(steps[rank]):
        dist.all_reduce(torch.ones(1))
"""
RECORDED = """
import lockstep, torch
from hypothesis import given, settings, strategies as st

@lockstep.world(2)
@settings(database=None, max_examples=10)
@given(factor=st.integers(1, 9))
def test_training(rank, factor):
    model = torch.nn.Linear(4, 2)
    ddp = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    ddp(torch.randn(2, 4)).sum().backward()
    if rank == 1:
        model.weight.grad.mul_(factor)
    optimizer.step()
"""
STRATEGIES = """
import unittest
import lockstep, torch, torch.distributed as dist
from hypothesis import assume, find, given, settings, strategies as st
from lockstep import strategies

FEW = settings(max_examples=25, database=None, deadline=None)

def largest(rank, split, samples):
    dist.all_reduce(total := torch.tensor(split[rank]))
    return total.item()

@lockstep.world(2, 3)
@FEW
@given(model=strategies.models(3, 2, norms=("", "layer", "batch")), batch=strategies.batches(3, 2, min_samples=0), splits=st.lists(strategies.splits()))
def test_ranks_have_the_same(rank, world_size, model, batch, splits):
    before = torch.get_rng_state()
    network, (inputs, targets) = model.build(), batch.of(rank)
    assert torch.equal(before, torch.get_rng_state()) and all(len(each) == world_size for each in splits)
    everyone = [None] * world_size
    dist.all_gather_object(everyone, (inputs, targets, dict(network.state_dict())))
    for parts, whole in zip(zip(*everyone), batch.whole()):
        assert torch.equal(torch.cat(parts), whole)
    for each in everyone[1:]:
        assert all(torch.equal(each[2][name], value) for name, value in everyone[0][2].items())
    if len(inputs) > 1:
        assert network(inputs).shape == targets.shape
    assert eval(repr((model, batch)), vars(strategies)) == (model, batch)

class WithoutPytest(unittest.TestCase):
    @FEW
    @given(st.data(), strategies.worlds(max_size=3), st.integers(0, 9), st.integers(0, 2))
    def test_splits_have_their_sum(self, data, size, samples, least):
        if samples < size * least:
            with self.assertRaisesRegex(ValueError, "cannot be split over"):
                data.draw(strategies.splits(samples, min_samples=least, world_size=size))
            return
        split = data.draw(strategies.splits(samples, min_samples=least, world_size=size))
        self.assertEqual((len(split), sum(split), min(split) >= least), (size, samples, True))

    def test_the_first_split_is_even(self):
        self.assertEqual(find(strategies.splits(9, world_size=3), lambda split: True), (3, 3, 3))
        self.assertEqual(find(strategies.splits(world_size=3), lambda split: len(set(split)) > 1), (1, 1, 2))

    @settings(max_examples=5, database=None, deadline=None)
    @given(strategies.splits(min_samples=0))
    def test_worlds(self, split):
        self.assertEqual(lockstep.run_world(largest, len(split), split, 0, tier="sim"), [sum(split)] * len(split))
"""


class Hypothesis(project.Project):
    def test_examples_that_pass(self):
        self.write("test_passing.py", PASSING)
        for tier in TIERS:
            with self.subTest(tier=tier):
                status, said, results = self.pytest("--lockstep-tier", tier, "--hypothesis-show-statistics", "--hypothesis-seed=1", "-rP")
                self.assertEqual(status, 0, said)
                self.assertEqual(len(results), 10, said)
                self.assert_says(said, "Events:\n(?: +\\*.*\n)*? +\\* +[0-9.]+%, even", "Highest target score: \\d+", "5 passing, 0 failing")
                drawn = re.findall("drawn ([01]) ([0-9.]+)", results["test_each_example_draws_the_same[world2]"][1])
                self.assertEqual([rank for rank, _ in drawn], ["0", "1"], said)  # Of the last example alone.
                self.assertNotIn("ran cold", said)
                self.assertNotIn("lockstep =", said)
        self.assert_nothing_is_left()

    def test_an_example_that_fails_is_the_smallest(self):
        self.write("test_failing.py", FAILING)
        for tier in TIERS:
            with self.subTest(tier=tier):
                status, said, results = self.pytest("--lockstep-tier", tier, "--hypothesis-seed=1", 
                                                    "-k", {"cold": "shrinks or after", "warm": "", "sim": "not dies"}[tier])
                self.assertEqual(status, 1, said)
                says = {
                    "shrinks": ["numbers=\\[150\\]", "rank 0: seen by 0\nrank 1: seen by 1", "rank 1: assert \\(1 == 0 or 300 < 300\\)", "rank 0: passed",
                                "\nprinted 150\nprinted 150\n", "rank 1 of 2 failed"],
                    "two_errors": ["2 distinct failures", "number=801", "number=301", "ValueError: smaller", "rank 1: failed: ValueError: 801"],
                    "ranks_disagree": ["the ranks disagree on whether this test has this example, which assume\\(\\) or reject\\(\\) refuses",
                                       "rank 0: rejected", "rank 1: passed", "number=10,"],
                    "draws_in_the_body": ["where each rank would draw for itself", "line \\d+, in test_draws|test_failing.py:\\d+: "],
                    "function_scope": ["uses a function-scoped fixture 'tmp_path'"],
                    "dies": ["rank 1 of 2 ended its process with exit status 3", "number=900"]}
                for name, patterns in says.items():
                    if f"test_{name}[world2]" in results:
                        kind, text = results[f"test_{name}[world2]"]
                        self.assertEqual(kind, "failure", said)
                        self.assert_says(text, *patterns)
                        self.assertNotIn("These lines were", text)
                self.assertEqual(results["test_shrinks[world2]"][1].count("printed"), 3, said)  # In the source and of two ranks.
                self.assertEqual(results["test_after_all[world2]"][0], "passed", said)
        self.assert_nothing_is_left()

    def test_a_hang_is_shrunk(self):
        self.write("test_hanging.py", HANGING)
        status, said, results = self.pytest("--lockstep-tier", "sim", "--hypothesis-seed=1")
        self.assertEqual(status, 1, said)
        self.assert_says(results["test_hangs[world3]"][1], "steps=\\[0, 0, 1\\]", "rank 2 of 3 waits for ever")

    def test_recorded_examples_are_judged(self):
        self.write("test_recorded.py", RECORDED)
        status, said, results = self.pytest("--lockstep-tier", "warm", "--lockstep-record=out", "--hypothesis-seed=1")
        self.assertEqual(status, 1, said)
        self.assert_says(results["test_training[world2]"][1], "lockstep judge. says", "factor=2", "parameters.are_the_same")
        self.assertEqual(len(os.listdir(os.path.join(self.folder, "out"))), 1)  # The smallest example's.

    def test_strategies(self):
        self.write("test_strategies.py", STRATEGIES)
        status, said, _ = self.pytest("--lockstep-tier", "sim")
        self.assertEqual(status, 0, said)
        status, said = self.run_python("-c", "import sys; sys.modules['hypothesis'] = None; import lockstep.strategies")
        self.assertEqual(status, 1, said)
        self.assert_says(said, "ModuleNotFoundError: lockstep.strategies needs Hypothesis, which is not installed: pip install hypothesis")


class Example(project.Project):
    def test_the_example_finds_the_mean_of_means(self):
        """The page prints what the example says once the line that weights gradients is gone."""
        tree = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
        line = "        parameter.grad *= samples * dist.get_world_size() / total\n"
        for name in "averaging.py", "test_uneven.py", "pytest.ini":
            with open(os.path.join(tree, "examples", "pytest", name), encoding="utf-8") as file:
                self.write(name, file.read())
        status, said, _ = self.pytest("--hypothesis-seed=1")
        self.assertEqual(status, 0, said)
        with open(os.path.join(self.folder, "averaging.py"), encoding="utf-8") as file:
            text = file.read()
        self.assertIn(line, text)
        self.write("averaging.py", text.replace(line, "        pass\n"))
        status, said, results = self.pytest("--hypothesis-seed=1")
        self.assertEqual(status, 1, said)
        self.assertEqual([kind for kind, _ in results.values()], ["failure"] * 2, said)
        with open(os.path.join(tree, "docs", "python.md"), encoding="utf-8") as file:
            printed = file.read().split("test_gradients_are_those_of_the_whole_batch[world2] _")[1].split("```")[0].split("\n", 1)[1]
        for part in printed.split("...\n"):
            self.assertIn(part, said)


if __name__ == "__main__":
    project.PYTHON = os.path.abspath(sys.argv.pop(1))
    unittest.main()
