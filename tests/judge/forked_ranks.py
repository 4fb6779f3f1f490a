"""Ranks of trainings as forks of one process, in which LibTorch is loaded once."""

import atexit
import gc
import os

import torch
from torch import nn


def load_all():
    """Loads, once for all ranks, what the first optimizer loads."""
    torch.optim.SGD(nn.Linear(1, 1).parameters(), lr=1)
    gc.freeze()


def run_forked(world, run):
    """Calls run(rank) in a fork for each rank, and waits for all."""
    ranks = []
    for rank in range(world):
        ranks.append(os.fork())
        if ranks[-1] == 0:
            run(rank)
            atexit._run_exitfuncs()
            os._exit(0)  # The rest of Python's end takes ten times as long as the training.
    for process in ranks:
        os.waitpid(process, 0)
