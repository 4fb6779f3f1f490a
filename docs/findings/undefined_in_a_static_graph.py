"""errors.lacking_gradients_are_reported: Where ranks lack gradients that must be there, every rank
receives an error that says which.

Here: a forward and a backward; on all ranks a function passes no gradient on to a parameter. The
case: world {"size":2}, lacks [{"how":"undefined"}], options {"static_graph":true}.

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
SIZES = [1]  # of parameters w0, w1, ...
HOW = [  # by step, rank, pass and parameter: how it lacks its gradient
    [[["undefined"]], [["undefined"]]],
]
FACTORS = [  # by step, rank, pass and parameter: its gradient otherwise
    [[[6.0]], [[6.0]]],
]
FAILS = [False]  # by step: every rank has to receive an error


class Passage(torch.autograd.Function):  # behind a parameter
    @staticmethod
    def forward(ctx, x, how):
        ctx.how = how
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        if ctx.how == "throw_in_backward":
            raise RuntimeError("planted")
        return None if ctx.how == "undefined" else gradient, None


class Net(torch.nn.Module):
    def __init__(self, rank):
        super().__init__()
        self.first = 0
        for i, size in enumerate(SIZES):
            self.register_parameter(f"w{i}", torch.nn.Parameter(torch.ones(size, 1, dtype=torch.float32)))

    def forward(self, factors, how):  # an output for each parameter, and one without any
        outputs = [None] * len(SIZES)
        for i in range(len(SIZES)):
            i = (i + self.first) % len(SIZES)
            value = self.get_parameter(f"w{i}")
            if how[i] == "throw_in_forward":
                raise RuntimeError("planted")
            outputs[i] = torch.zeros_like(value) if how[i] == "unused" else Passage.apply(value, how[i]) * factors[i].item()
        return outputs + [factors.sum() * 0]


def program(net, model, rank, no_sync):
    """A rank's steps; one process takes them for every rank, with `net` itself as the model."""
    for step in range(len(HOW)):
        net.zero_grad()
        net.error = "none"
        try:
            for how, factors in zip(HOW[step][rank], FACTORS[step][rank]):
                last = how is HOW[step][rank][-1]
                with nullcontext() if last else no_sync():
                    outputs = model(torch.tensor(factors, requires_grad=True), how)
                    sum(each.sum() for each, word in zip(outputs, how + [""]) if word != "left_out").backward()
        except RuntimeError as error:
            # A peer that has ended closes its connections: that reports nothing.
            net.error = "its timeout" if "imed out" in str(error) else "a lost peer" if "onnection" in str(error) else "received"
            print(f"rank {rank}, step {step}: {error}", flush=True)
        if model is net:
            net.error = "received" if FAILS[step] else "none"
        for i, value in enumerate(net.parameters()):  # an undefined gradient counts as zero
            if model is net and value.grad is None and any(ranks[-1][i] == "undefined" for ranks in HOW[step]):
                value.grad = torch.zeros_like(value)
        if FAILS[step]:
            net.zero_grad()
        yield f"step {step}", average


def held(net):
    return {"error": net.error, **{name: each.grad for name, each in net.named_parameters()}}


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


dist.init_process_group("gloo", timeout=timedelta(seconds=10))
rank = dist.get_rank()
assert dist.get_world_size() == WORLD, f"this is a program for {WORLD} rank{'s' * (WORLD > 1)}"
net = Net(rank)
model = DistributedDataParallel(net, static_graph=True)
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
