"""Ranks of trainings as forks of one process, in which LibTorch is loaded once."""

import atexit
import datetime
import gc
import os
import random

import numpy
import torch
import torch.distributed as dist
from torch import nn

import lockstep_recorder


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
            random.seed()  # As processes of their own begin: torch's generator alone is alike.
            numpy.random.seed()
            run(rank)
            atexit._run_exitfuncs()
            os._exit(0)  # The rest of Python's end takes ten times as long as the training.
    for process in ranks:
        os.waitpid(process, 0)


def record_programs(run, folder, wanted, timeout_seconds):
    """Records each NAME:WORLD into folder/NAME-WORLD: run(rank, NAME) on its ranks, in a group with this timeout."""
    load_all()
    for each in wanted:
        name, world = each.split(":")

        def of_rank(rank, name=name, world=world):
            os.environ.update(RANK=str(rank), WORLD_SIZE=world)
            lockstep_recorder.start(os.path.join(folder, "%s-%s" % (name, world)), name + ".py")
            dist.init_process_group("gloo", init_method="file://" + os.path.join(folder, "%s-%s.store" % (name, world)), rank=rank,
                                    world_size=int(world), timeout=datetime.timedelta(seconds=timeout_seconds))
            run(rank, name)
        run_forked(int(world), of_rank)
