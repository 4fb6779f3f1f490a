"""join.joinables_are_shadowed: In a join, ranks that are out of inputs go on updating their part of a
sharded optimizer.

Here: in a join of a wrapped model and a sharded optimizer, ranks train on [1, 0] inputs, of which
those of rank 1 end first; then all train one step more. The case: world {"size":2}, inputs [1,0],
sizes [1,1].

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
from torch.distributed.algorithms.join import Join
from torch.distributed.optim import ZeroRedundancyOptimizer

INPUTS = [1, 0]  # of each rank
INPUTS_MOST = 1
START = [torch.tensor([0.8872800974672221], dtype=torch.float64), torch.tensor([-0.30322210997983134], dtype=torch.float64)]
BATCHES = [  # by step and rank
    [torch.tensor([-1.0, -1.0], dtype=torch.float64), torch.tensor([1.0, -2.0], dtype=torch.float64)],
    [torch.tensor([1.0, 0.0], dtype=torch.float64), torch.tensor([-1.0, -1.0], dtype=torch.float64)],
]
MULTIPLE = 2  # no average of such gradients rounds

class Net(torch.nn.Module):
    def __init__(self, rank):
        super().__init__()
        for i, value in enumerate(START):
            self.register_parameter(f"w{i}", torch.nn.Parameter(value.clone()))

    def forward(self, batch):  # whose gradient depends on the parameters
        flat = torch.cat([each.flatten() for each in self.parameters()])
        return (flat * (batch + (flat.detach() * 4).round().clamp(-3, 3)) * MULTIPLE).sum()


def program(net, model, rank, no_sync):
    """A rank's steps; one process takes them for every rank, with `net` itself as the model."""
    kind, arguments = torch.optim.SGD, dict(lr=0.1)
    optimizer = kind(net.parameters(), **arguments)
    if model is not net:
        optimizer = ZeroRedundancyOptimizer(net.parameters(), optimizer_class=kind, **arguments)


    def step_of(step, meet):
        net.zero_grad()
        if step >= INPUTS_MOST or step < INPUTS[rank]:
            model(BATCHES[step][rank]).backward()
        yield None, meet
        for _ in range(1):
            optimizer.step()


    with nullcontext() if model is net else Join([model, optimizer], divide_by_initial_world_size=True):
        for step in range(INPUTS_MOST if model is net else INPUTS[rank]):
            yield from step_of(step, average)
    yield "after the join", None
    yield from step_of(INPUTS_MOST, average)
    yield "after one more step of all ranks", None


def held(net):
    return dict(net.named_parameters())


def average(nets):
    for same in zip(*(net.parameters() for net in nets)):
        gradients = [each.grad for each in same if each.grad is not None]
        for each in same if gradients else ():
            each.grad = sum(gradients) / WORLD


def text(value):
    return str((value.detach().to_dense() + 0).tolist() if isinstance(value, torch.Tensor) else value)


def is_near(mine, right):
    if not isinstance(mine, torch.Tensor) or not isinstance(right, torch.Tensor):
        return mine == right
    return mine.shape == right.shape and torch.allclose(mine.double(), right.double(), rtol=1e-09, atol=1e-09)


def until_it_throws(steps):
    global wrong
    try:
        yield from steps
    except Exception as error:
        wrong += 1
        print(f"rank {rank} threw {type(error).__name__}: {error}   <-- one process does not", flush=True)


dist.init_process_group("gloo", timeout=timedelta(seconds=20))
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
        mark = "" if is_near(mine, right) else "   <-- differs"
        wrong += mark != ""
        print(f"rank {rank}, {moment}: {name} {text(mine)}, one process {text(right)}{mark}", flush=True)
with suppress(RuntimeError):
    dist.barrier()  # torchrun ends the others as soon as one rank has failed
sys.exit(1 if wrong else 0)
