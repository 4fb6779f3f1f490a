#!/usr/bin/env python3
"""A program of a user's, unchanged, in worlds beside one process.

usage: in_programs.py PYTHON [TEST ...]     PYTHON is of an environment that has the package and PyTorch
"""

import os
import sys
import unittest

import project

PROGRAM = """
import argparse, os, sys, time
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int)
parser.add_argument("--reduction", default="mean")
parser.add_argument("--by-hand", action="store_true")
parser.add_argument("--ends", default="")
options = parser.parse_args()
dist.init_process_group("gloo")
world = dist.get_world_size()
if options.ends == "throws" and world > 1:
    sys.exit("the data is not here")
if options.ends == "hangs":
    time.sleep(1000)
torch.manual_seed(0)
draw = torch.Generator().manual_seed(1)
data = TensorDataset(torch.randn(32, 4, generator=draw), torch.randn(32, 2, generator=draw))
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
if world > 1 and not options.by_hand:
    model = DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for x, y in DataLoader(data, options.batch_size, sampler=DistributedSampler(data)):
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(x), y, reduction=options.reduction).backward()
    for each in model.parameters() if options.by_hand else ():
        dist.all_reduce(each.grad)
        each.grad /= world
    optimizer.step()
dist.destroy_process_group()
"""
PROGRAMS = """
import traceback
import lockstep

def run(*more, option="--batch-size", timeout=300, size=("--batch-size", "8")):
    try:
        lockstep.same_as_one_process("program.py", worlds=(2,), steps=3, arguments=[*size, *more], batch_size=option, timeout=timeout)
        print("the same")
    except Exception as error:
        print(*traceback.format_exception(error))
    print("=====")

run()
run("--by-hand", size=("--batch-size=8",))
run("--reduction", "sum")
run("--ends", "throws")
run("--ends", "hangs", timeout=8)
run(option=None)
run(option="--batch")
run(size=("--batch-size", "7"))
run(size=("--batch-size",))
"""
PROGRAMS_SAY = (
    ["^the same"], ["^the same"],
    ["AssertionError: training in a world of 2 is not the same", "divided by the world size once more", "the loss is a sum over each rank's samples"],
    ["WorldError: program.py in a world of 2 ended with 1", "the data is not here"],
    ["WorldError: program.py in a world of 1 did not end within 8 s"],
    ["the ranks train on 16 samples together and one process on 8: a rank's batch size is its part of that of one process"],
    ["ValueError: --batch is among the arguments 0 times; expected once"],
    ["ValueError: --batch-size 7 cannot be divided over 2 ranks alike"],
    ["ValueError: --batch-size is ''; expected a whole number"],
)


class Programs(project.Project):
    def test_a_program_is_run_in_each_world(self):
        self.write("program.py", PROGRAM)
        self.write("programs.py", PROGRAMS)
        status, said = self.run_python("programs.py")
        self.assertEqual(status, 0, said)
        for says, text in zip(PROGRAMS_SAY, said.split("=====\n"), strict=False):
            with self.subTest(says=says):
                self.assert_says(text, *says)
        self.assert_nothing_is_left()


if __name__ == "__main__":
    project.PYTHON = os.path.abspath(sys.argv.pop(1))
    unittest.main()
