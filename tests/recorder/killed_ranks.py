"""A training of two ranks, of which rank 1 is killed while it records.

usage: killed_ranks.py FOLDER WRITE:BYTES...     records FOLDER/WRITE: rank 1 is killed in its write number WRITE, after BYTES bytes of
                                                 it; number 0 is none. Prints "WRITE: N", how many writes rank 1 came to.

Runs with PyTorch's Python. LibTorch is loaded once, and each rank is a fork.
"""

import datetime
import os
import signal
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [os.path.join(ROOT, "recorder", "python"), os.path.join(ROOT, "tests", "judge")]
os.environ["OMP_NUM_THREADS"] = "1"

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import lockstep_recorder
from forked_ranks import load_all, run_forked

EPOCHS = 2


class Killer:
    """In the place of os.write. The kernel has what was written before the kill."""

    def __init__(self, at, size):
        self.at, self.size, self.count, self.original = at, size, 0, os.write

    def __call__(self, file, data):
        self.count += 1
        if self.count != self.at:
            return self.original(file, data)
        self.original(file, bytes(data)[:self.size])
        os.kill(os.getpid(), signal.SIGKILL)


def train():
    torch.manual_seed(1)
    data = TensorDataset(torch.randn(16, 4), torch.randint(0, 2, (16,)))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=4, sampler=sampler)
    ddp = DistributedDataParallel(nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2)))
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1, momentum=0.9)
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            cross_entropy(ddp(x), y).backward()
            optimizer.step()


def rank_of(folder, at, size, rank):
    os.environ.update(RANK=str(rank), WORLD_SIZE="2")
    killer = Killer(at if rank == 1 else 0, size)
    os.write = killer
    lockstep_recorder.start(folder, "killed.py")
    try:
        dist.init_process_group("gloo", init_method="file://" + folder + ".store", rank=rank, world_size=2, timeout=datetime.timedelta(seconds=5))
        train()
    except RuntimeError:  # The other one is gone.
        sys.excepthook(*sys.exc_info())
    if rank == 1:
        killer.original(1, f"{at}: {killer.count}\n".encode())


def main(folder, *moments):
    load_all()
    for moment in moments:
        at, size = map(int, moment.split(":"))
        run_forked(2, lambda rank: rank_of(os.path.join(folder, str(at)), at, size, rank))


if __name__ == "__main__":
    main(*sys.argv[1:])
