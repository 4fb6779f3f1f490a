#!/usr/bin/env python3
"""Worlds without pytest, and training in worlds beside training in one process.

usage: in_parity.py PYTHON [TEST ...]     PYTHON is of an environment that has the package and PyTorch
"""

import os
import sys
import unittest

import project
import unittests

TRAININGS = """
import sys, traceback
import torch, torch.distributed as dist
import lockstep
from torch.nn.functional import mse_loss
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

generator = torch.Generator().manual_seed(1)
DATA = TensorDataset(torch.randn(64, 4, generator=generator), torch.randn(64, 2, generator=generator))

def network():
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))

def loop(context, model, batches=None, average=lambda: None, others=(), reduction="mean"):
    optimizer = torch.optim.SGD([*model.parameters(), *others], lr=0.1, momentum=0.9)
    for x, y in batches or context.batches(DATA, 8):
        optimizer.zero_grad()
        mse_loss(model(x), y, reduction=reduction).backward()
        average()
        optimizer.step()

def by_hand(context, divide):
    model = lockstep.watch(network())
    def average():
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
            parameter.grad /= divide
    loop(context, model, average=average)

def wrapped(context):
    loop(context, context.wrap(network()))

def averaged_by_hand(context):
    by_hand(context, context.world_size)

def closure():
    width = 3
    def train(context):
        loop(context, context.wrap(torch.nn.Sequential(torch.nn.Linear(4, width), torch.nn.Linear(width, 2))))
    return train
closed_over = closure()

def wrapped_in_a_world_alone(context):
    loop(context, network() if context.world_size == 1 else context.wrap(network()))

def summed_by_hand(context):
    by_hand(context, 1)

def loss_is_a_sum(context):
    loop(context, context.wrap(network()), reduction="sum")

def second_model_is_not_averaged(context):
    head = torch.nn.Linear(2, 2)
    ddp = context.wrap(network())
    loop(context, torch.nn.Sequential(ddp, head))

def module_instead_of_wrapper(context):
    loop(context, context.wrap(network()).module)

def loader(context, **how):
    batches = DataLoader(DATA, 8 // context.world_size, **how)
    return (batch for _, batch in zip(range(context.steps), batches))

def ranks_overlap(context):
    loop(context, context.wrap(network()), loader(context, shuffle=True, generator=torch.Generator().manual_seed(3)))

def own_order(context):
    sampler = DistributedSampler(DATA, context.world_size, context.rank, seed=context.rank)
    loop(context, context.wrap(network()), loader(context, sampler=sampler))

def rate_grows_with_the_world(context):
    model = context.wrap(network())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1 * context.world_size)
    for x, y in context.batches(DATA, 8):
        optimizer.zero_grad()
        mse_loss(model(x), y).backward()
        optimizer.step()

def fewer_updates(context):
    context.steps -= context.world_size > 1
    wrapped(context)

def more_updates(context):
    context.steps -= context.world_size == 1
    wrapped(context)

def many_values(context):
    model = context.wrap(torch.nn.Linear(600, 600))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step, (x, y) in enumerate(context.batches(TensorDataset(torch.randn(320, 600), torch.randn(320, 600)), 8)):
        optimizer.param_groups[0]["lr"] *= context.world_size if step == 38 else 1  # Of which nothing is recorded.
        optimizer.zero_grad()
        mse_loss(model(x), y).backward()
        optimizer.step()

def throws(context):
    if context.world_size > 1 and context.rank == 1:
        raise ValueError("planted")
    wrapped(context)

def no_update(context):
    context.wrap(network())

def updated_by_hand(context):
    model = lockstep.watch(network())
    for x, y in context.batches(DATA, 8):
        model.zero_grad()
        mse_loss(model(x), y).backward()
        with torch.no_grad():
            for parameter in model.parameters():
                dist.all_reduce(parameter.grad)
                parameter -= 0.1 * parameter.grad / context.world_size

def indivisible(context):
    loop(context, context.wrap(network()), context.batches(DATA, 6))

for name in sys.argv[1:]:
    try:
        lockstep.same_as_one_process(globals()[name], worlds=(2, 4), steps=40 if name == "many_values" else 3)
        print(f"{name}: the same")
    except Exception as error:
        print(f"{name}:", *traceback.format_exception(error))
    print("=====")
"""
RIGHT = "wrapped", "averaged_by_hand", "closed_over", "wrapped_in_a_world_alone"
WRONG = {
    "summed_by_hand": ["AssertionError: training in a world of 2 is not the same", "the SUM of the ranks' gradients", "step 0, backward, 0.weight"],
    "loss_is_a_sum": ["the average divided by the world size once more", "step 0, backward, 0.weight"],
    "second_model_is_not_averaged": ["nothing else averaged their gradients"],
    "module_instead_of_wrapper": ["A training's forward must run through DistributedDataParallel", "no forward of the model|nothing else averaged|through no forward of its wrapper"],
    "ranks_overlap": ["rank 0 and rank 1 drew the same samples"],
    "own_order": ["the seed of pass 0 of loader 0: rank 0 has 0, rank 1 has 1"],
    "rate_grows_with_the_world": ["values.follow_one_process", "step 0, update"],
    "fewer_updates": ["AssertionError: training in a world of 2 is not the same", "the ranks made 2 updates, and one process 3"],
    "more_updates": ["AssertionError: training in a world of 2 is not the same", "the ranks made 3 updates, and one process 2"],
    "many_values": ["AssertionError: training in a world of 2 is not known to be the same", "holds the values of \\d+ updates, .*; ask for no more"],
    "throws": ["ValueError: planted", "rank 1 of 2 failed", "rank 0: waits in ddp_construction", "rank 1's traceback"],
    "no_update": ["AssertionError: training in a world of 2 is not", "no rank recorded an update"],
    "updated_by_hand": ["training in a world of 2 is not known to be the same", "updates are those of PyTorch's optimizers"],
    "indivisible": ["a global batch of 6 cannot be divided over 4 ranks alike"],
}


class Parity(project.Project):
    def test_a_right_training_is_silent(self):
        self.write("trainings.py", TRAININGS)
        # An interpreter of its own: newer Triton counts at its end what the process that forks all runs keeps.
        self.assertEqual(self.run_python("trainings.py", *RIGHT, PYTHONPATH=self.folder), (0, "".join(f"{each}: the same\n=====\n" for each in RIGHT)))
        self.assert_nothing_is_left()

    def test_a_wrong_training_is_named(self):
        self.write("trainings.py", TRAININGS)
        status, said = self.run_python("trainings.py", *WRONG)
        self.assertEqual(status, 0, said)
        for (each, says), text in zip(WRONG.items(), said.split("=====\n"), strict=False):
            with self.subTest(training=each):
                self.assert_says(text, f"^{each}: Traceback", *says)
        self.assert_nothing_is_left()


class WithoutPytest(project.Project):
    def test_worlds_of_unittest(self):
        self.write("worlds.py", unittests.WITHOUT_PYTEST)
        status, said = self.run_python("worlds.py")
        self.assertEqual(status, 0, said)
        self.assert_says(said, "Ran 24 tests")
        self.assert_nothing_is_left()

    def test_the_package_is_light(self):
        status, said = self.run_python("-c", "import lockstep, sys; print([name for name in ('torch', 'pytest', 'numpy') if name in sys.modules])")
        self.assertEqual((status, said), (0, "[]\n"))
        self.write("test_light.py", "import sys\ndef test(): assert 'torch' not in sys.modules\n")
        status, said = self.run_python("-c", "import pytest; raise SystemExit(pytest.main(['-p', 'no:cacheprovider']))")
        self.assertEqual(status, 0, said)


if __name__ == "__main__":
    project.PYTHON = os.path.abspath(sys.argv.pop(1))
    unittest.main()
