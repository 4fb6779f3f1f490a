"""replicas.conversion_is_noticed: A wrapped model that was converted to another dtype and back is
averaged, or refused on every rank.

Here: wraps a network, converts it to another dtype and back, one forward, one backward. The case:
world {"size":2}, seed 1.

Run it by: torchrun --standalone --nproc-per-node 2 FILE.py
It prints what each rank holds beside one process that does what all ranks do, and exits 1 where
they differ.
"""
import sys
from contextlib import nullcontext, suppress
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

WORLD = 2
START = [  # by rank
    [torch.tensor([[2.0]]), torch.tensor([0.0])],
    [torch.tensor([[-1.0]]), torch.tensor([2.0])],
]
X = [  # by batch and rank
    [torch.zeros([0, 1]), torch.tensor([[0.0]])],
]
Y = [  # by batch and rank
    [torch.zeros([0, 1]), torch.tensor([[-1.0]])],
]


def loss(model, batch, rank):
    return (model(X[batch][rank]) * Y[batch][rank]).sum() * 2 / 1


class Net(torch.nn.Module):
    def __init__(self, rank):
        super().__init__()
        for b in range(1):
            self.add_module(f"branch{b}", torch.nn.Sequential(torch.nn.Linear(1, 1)))
        with torch.no_grad():
            for each, value in zip(self.parameters(), START[rank]):
                each.copy_(value)

    def forward(self, x):
        return self.branch0(x)


def program(net, model, rank, no_sync):
    """A rank's steps; one process takes them for every rank, with `net` itself as the model."""
    net.double().float()
    loss(model, 0, rank).backward()
    yield "after backward", average


def held(net):
    return {name: each.grad for name, each in net.named_parameters() if each.requires_grad}


def average(nets):
    for same in zip(*(net.parameters() for net in nets)):
        gradients = [each.grad for each in same if each.grad is not None]
        for each in same if gradients else ():
            each.grad = sum(gradients) / WORLD


def text(value):
    return str((value.detach().to_dense() + 0).tolist() if isinstance(value, torch.Tensor) else value)


def until_it_throws(steps):
    global wrong
    try:
        yield from steps
    except Exception as error:
        wrong += 1
        print(f"rank {rank} threw {type(error).__name__}: {error}   <-- one process does not", flush=True)


dist.init_process_group("gloo", timeout=timedelta(seconds=60))
rank = dist.get_rank()
assert dist.get_world_size() == WORLD, f"this is a program for {WORLD} rank{'s' * (WORLD > 1)}"
net = Net(rank)
model = DistributedDataParallel(net)
alone = [Net(0) for _ in range(WORLD)]
wrong = 0
runs = [program(one, one, r, nullcontext) for r, one in enumerate(alone)]
for moment, _ in until_it_throws(program(net, model, rank, model.no_sync)):
    reached = None
    while moment and reached != moment:  # one process comes to the same moment
        (reached, exchange), *_ = [next(run) for run in runs]
        if exchange:
            exchange(alone)
    for (name, mine), right in zip(held(net).items(), held(alone[rank]).values()) if moment else ():
        mark = "" if text(mine) == text(right) else "   <-- differs"
        wrong += mark != ""
        print(f"rank {rank}, {moment}: {name} {text(mine)}, one process {text(right)}{mark}", flush=True)
with suppress(RuntimeError):
    dist.barrier()  # torchrun ends the others as soon as one rank has failed
sys.exit(1 if wrong else 0)
