"""evaluation.counts_each_sample_once: Sums over the ranks of what each counted in an evaluation are
those of one process.

Here: trains a step, then evaluates 1 sample inside no_sync, with gradients enabled. The case: world
{"size":2}, with_gradients true.

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
GRADIENT = [  # by round and rank: of its step of training
    [2.0, 4.0],
]
BATCHES = [  # by round and rank
    [[[3.0]], [[3.0]]],
]

class Net(torch.nn.Module):
    def __init__(self, rank):
        super().__init__()
        self.w = torch.nn.Parameter(torch.tensor([40.0]))

    def forward(self, x):
        return self.w * x


def program(net, model, rank, no_sync):
    """A rank's steps; one process takes them for every rank, with `net` itself as the model."""
    optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
    for round in range(len(GRADIENT)):
        optimizer.zero_grad()
        model.train()
        model(torch.tensor([GRADIENT[round][rank]])).sum().backward()
        yield None, average
        optimizer.step()
        model.eval()
        with torch.profiler.profile() as seen, no_sync():
            for batch in BATCHES[round][rank]:
                model(torch.tensor(batch))
        net.issued = [each.name for each in seen.events() if each.name.startswith("c10d::")]
        yield f"round {round}, evaluated", None


def held(net):
    return {"collectives in the evaluation": net.issued, "w": net.w}


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
