"""programs.match_single_process: After each step of a drawn training program every rank holds what one
process holds.

Here: wraps a model; forward, backward, scale, forward that leaves layers out, backward. The case:
world {"size":2}, steps
[{"op":"forward"},{"op":"backward"},{"op":"scale","ranks":1},{"op":"forward","unused":[1]},{"op":"backward"}],
layers [{"kind":"vector","size":3},{"kind":"vector","size":2}], outputs 2, options
{"bucket_cap_bytes":1,"find_unused_parameters":true,"gradient_as_bucket_view":true}, seed 5.

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


def wrapped(net):
    return DistributedDataParallel(net, find_unused_parameters=True, gradient_as_bucket_view=True, bucket_cap_mb=9.5367431640625e-07)


def no_sync_of(ddp):
    return ddp.no_sync() if isinstance(ddp, DistributedDataParallel) else nullcontext()




class Net(torch.nn.Module):
    def __init__(self, rank):
        super().__init__()
        self.begin = 0
        self.first = torch.nn.Parameter(torch.tensor([-2.0]))
        self.layer0_weight = torch.nn.Parameter(torch.tensor([0.0, 0.0, 0.0]))
        self.layer1_weight = torch.nn.Parameter(torch.tensor([-2.0, -2.0]))

    def forward(self, x, left_out=0, uses_first=True):
        layers = [
            lambda: (self.layer0_weight * x[1:4].view(3).to(torch.float32)).sum(),
            lambda: (self.layer1_weight * x[4:6].view(2).to(torch.float32)).sum(),
        ]
        outputs = [x[0] * 0 for _ in range(2)]
        outputs[0] = x[0] * self.first.double().sum() if uses_first else x[0]
        for i in range(len(layers)):
            i = (i + self.begin) % len(layers)
            if not left_out >> i & 1:
                outputs[i % 2] = outputs[i % 2] + layers[i]().double()
        return outputs


def program(net, model, rank, no_sync):
    """A rank's steps; one process takes them for every rank, with `net` itself as the model."""
    ddp = [each if model is net else wrapped(each) for each in [net]]
    losses = {}
    output = ddp[0]([torch.tensor([3.0, 3.0, -1.0, 1.0, -2.0, -2.0], dtype=torch.float64), torch.tensor([3.0, 3.0, 1.0, -2.0, -2.0, 2.0], dtype=torch.float64)][rank])
    output = sum(each for i, each in enumerate(output[:2]))
    losses[0] = output * [8.0, 12.0][rank]
    losses[0].backward()
    yield "step 1, backward", average
    if 1 >> rank % 4 & 1:
        for each in net.parameters():
            if each.grad is not None:
                each.grad.mul_(2)
    yield "step 2, scale", None
    output = ddp[0]([torch.tensor([2.0, 3.0, 3.0, -3.0, 3.0, -2.0], dtype=torch.float64), torch.tensor([3.0, -1.0, 3.0, -1.0, 3.0, -2.0], dtype=torch.float64)][rank], [1, 1][rank])
    output = sum(each for i, each in enumerate(output[:2]))
    losses[3] = output * [12.0, 12.0][rank]
    losses[3].backward()
    yield "step 4, backward", average


def held(net):
    return {f"{name}.grad": each.grad for name, each in net.named_parameters()}


used = set()  # names of parameters that got a gradient since the last average, on any rank


def average(nets, prefix=""):
    for name in sorted(each for each in used if each.startswith(prefix)):
        same = [net.get_parameter(name) for net in nets]
        parts = [torch.view_as_real(each.grad) if each.is_complex() else each.grad for each in same if each.grad is not None]
        mean = sum(parts) / WORLD
        for each in same:
            each.grad = torch.view_as_complex(mean.clone()) if each.is_complex() else mean.clone()
        used.discard(name)


def text(value):
    return str((value.detach().to_dense() + 0).tolist() if isinstance(value, torch.Tensor) else value)


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
model = None
alone = [Net(0) for _ in range(WORLD)]
for one in alone:
    for name, each in one.named_parameters():
        if each.requires_grad:
            each.register_post_accumulate_grad_hook(lambda _, name=name: used.add(name))
wrong = 0
runs = [program(one, one, r, nullcontext) for r, one in enumerate(alone)]
for moment, _ in until_it_throws(program(net, model, rank, None)):
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
