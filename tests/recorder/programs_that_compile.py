"""Programs that compile, or in which modes of PyTorch see each operation."""

import shutil
import warnings

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.flop_counter import FlopCounterMode

from training_of_models import network, sgd, train
from watched_programs import program, say


@program
def compiled_within(rank):
    train(DistributedDataParallel(torch.compile(network(), backend="eager")))


@program
def compiled_around(rank):
    train(torch.compile(DistributedDataParallel(network()), backend="eager"))


@program
def compiled_in_place(rank):
    ddp = DistributedDataParallel(network())
    ddp.module.compile(backend="aot_eager")
    train(ddp)


@program
def compiled_as_one_graph(rank):
    train(DistributedDataParallel(torch.compile(network(), backend="aot_eager", fullgraph=True)))


@program
def compiled_step_and_loss(rank):
    ddp = DistributedDataParallel(network())

    @torch.compile(backend="eager")
    def loss(model):
        return model(torch.ones(8, 4)).square().mean()
    train(ddp, loss=loss)


@program
def compiled_optimizer(rank):
    ddp = DistributedDataParallel(network())
    optimizer = sgd(ddp)
    step = torch.compile(optimizer.step, backend="eager")
    for _ in range(3):
        optimizer.zero_grad()
        ddp(torch.randn(8, 4)).square().mean().backward()
        step()
    say(ddp)


@program
def compiled_by_inductor(rank):
    if not (shutil.which("g++") or shutil.which("clang++")):
        return say("no compiler")
    train(torch.compile(DistributedDataParallel(nn.Linear(4, 1))), steps=2)


@program
def compiled_with_warnings_as_errors(rank):
    warnings.filterwarnings("error", message=".*hooks.*")
    train(DistributedDataParallel(torch.compile(network(), backend="eager")))


@program
def modes_that_see_each_operation(rank):
    with FlopCounterMode(display=False) as flops:
        train(DistributedDataParallel(network()))
    say(flops.get_total_flops())
    with torch.device("meta"):
        say(torch.empty(2).device)
    torch.use_deterministic_algorithms(True)
    torch.set_default_dtype(torch.float64)
    train(DistributedDataParallel(network()))
