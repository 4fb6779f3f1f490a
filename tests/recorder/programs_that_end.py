"""Programs that throw, exit, start processes, send by themselves, and let go of models."""

import gc
import multiprocessing
import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import all_gather, all_reduce
from torch.nn.parallel import DistributedDataParallel

from training_of_models import network, sgd, train
from watched_programs import WORLD, program, say


@program
def exits_early(rank):
    train(DistributedDataParallel(network()), steps=1)
    raise SystemExit(3)


@program
def exits_by_sys(rank):
    try:
        sys.exit(4)
    except SystemExit:
        say("stays")
    train(DistributedDataParallel(network()), steps=1)
    sys.exit(5)


@program
def throws(rank):
    train(DistributedDataParallel(network()), steps=1)
    raise ValueError("what a program throws \ud800".encode("utf-8", "replace").decode() + " and its cure")


@program
def errors_that_are_caught(rank):
    """In a forward, a backward, a step and a collective; the training then continues."""
    class Fails(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.fails = network(), False

        def forward(self, x):
            if self.fails:
                raise KeyError("forward")
            return self.inner(x)

    class Stops(torch.optim.SGD):
        def step(self, closure=None):
            if closure == "fails":
                raise ArithmeticError("step")
            return super().step()
    ddp = DistributedDataParallel(Fails())
    optimizer = Stops(ddp.parameters(), lr=0.05)
    for action in (lambda: torch.ones(2, requires_grad=True).backward(), lambda: optimizer.step("fails"), lambda: ddp.module(),
                   lambda: dist.all_reduce("no tensor"), lambda: dist.broadcast(), lambda: torch.autograd.backward(1, 2, 3, 4, 5, 6, 7)):
        try:
            action()
        except Exception as error:
            say(type(error).__name__, str(error).splitlines()[0])
    ddp.module.fails = True
    try:
        ddp(torch.ones(1, 4))
    except KeyError as error:
        say(error)
    ddp.module.fails = False
    train(ddp, sgd(ddp, momentum=0.5))
    train(ddp, optimizer)


@program
def process_that_helps(rank):
    helper = multiprocessing.get_context("fork").Process(target=lambda: train(network()))
    train(DistributedDataParallel(network()))
    helper.start()
    helper.join()
    say(helper.exitcode)


@program
def fork_in_the_training(rank):
    ddp = train(DistributedDataParallel(network()))
    child = os.fork()
    if child == 0:
        os._exit(9)
    say(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    train(ddp)


@program
def groups_made_twice(rank):
    train(DistributedDataParallel(network()))
    dist.destroy_process_group()
    os.environ.update(MASTER_ADDR="127.0.0.1")
    say(dist.is_initialized())


@program
def collectives_of_all_forms(rank):
    group, own = dist.new_group([0, 1]), dist.new_group([1])
    x = torch.arange(4.0) + rank
    all_reduce(x, dist.ReduceOp.MAX, group)
    work = all_reduce(x, async_op=True)
    work.wait()
    if rank == 1:
        dist.all_reduce(x, group=own)
    parts = [torch.empty(4) for _ in range(WORLD)]
    all_gather(parts, x)
    objects = [None] * WORLD
    dist.all_gather_object(objects, {"rank": rank})
    dist.broadcast_object_list(objects, src=1)
    dist.barrier()
    if rank == 0:
        dist.send(x, 1)
    else:
        dist.recv(x, 0)
    say(list(parts), [x], objects)


class Collecting(nn.Parameter):
    """Garbage is collected at whatever looks at it, also where a recorder does."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        gc.collect()
        return super().__torch_function__(function, types, args, kwargs or {})


@program
def collected_in_an_update(rank):
    gc.disable()
    first = network()
    first[0].bias = Collecting(first[0].bias.detach())
    first, second = DistributedDataParallel(first), DistributedDataParallel(network())
    optimizer = sgd(first)
    train(second, steps=1)
    second.module[0].around = [second]  # a cycle
    kept = {"second": second}
    del second
    first(torch.randn(8, 4)).square().mean().backward()
    optimizer.register_step_post_hook(lambda *_: kept.clear())
    optimizer.step()
    say(first)
