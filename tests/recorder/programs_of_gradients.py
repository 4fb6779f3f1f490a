"""Programs that clip, scale, reduce and hook gradients, and seed their workers."""

import warnings

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

from training_of_models import network, sgd, train
from watched_programs import program, say


@program
def scaled_and_clipped(rank):
    ddp = DistributedDataParallel(network())
    optimizer, scaler = sgd(ddp), torch.amp.GradScaler("cpu", init_scale=64.0, growth_interval=2)
    for step in range(5):
        optimizer.zero_grad()
        losses = scaler.scale([ddp(torch.randn(8, 4)).square().mean() / (0 if step == 3 else 1)])
        losses[0].backward()
        if step % 2:
            scaler.unscale_(optimizer)
        say(nn.utils.clip_grad_norm_((each for each in ddp.parameters()), max_norm=torch.tensor(0.5)))
        nn.utils.clip_grad_value_(ddp.module[0].weight, 0.1)
        scaler.step(optimizer)
        scaler.update()
        say(scaler.get_scale())
    say(ddp)


@program
def hooked_for_communication(rank):
    class State:
        def __bool__(self):
            raise AssertionError("nobody may ask whether a state is true")

    def hook(state, bucket):
        say(bucket.index(), type(state).__name__, len(bucket.gradients()))
        buffer = bucket.buffer().div_(2)
        return dist.all_reduce(buffer, async_op=True).get_future().then(lambda done: done.value()[0])
    ddp = DistributedDataParallel(network())
    ddp.register_comm_hook(State(), hook)
    say(ddp._comm_hooks[0][0] is hook)
    train(ddp)


@program
def reduced_later(rank):
    net = network()
    optimizer = sgd(net)
    for step in range(3):
        optimizer.zero_grad()
        net(torch.randn(8, 4)).square().mean().backward()
        works = [dist.all_reduce(each.grad, async_op=True) for each in net.parameters()]
        for work in works:
            if step == 1:
                work.get_future().wait()
            else:
                say(work.wait())
        optimizer.step()
    say(net)


@program
def queued_callbacks(rank):
    """A callback that a program queues in the engine of backwards runs once, and an exception in it ends the backward."""
    net = network()
    optimizer, engine = sgd(net), torch.autograd.Variable._execution_engine

    def average():
        for p in net.parameters():
            dist.all_reduce(p.grad)
            p.grad /= 2
        say(type(engine).__mro__[-2].__name__, isinstance(engine, torch._C._ImperativeEngine))
        if fails:
            raise ValueError("not this one")
    next(net.parameters()).register_hook(lambda _: engine.queue_callback(average))
    for fails in (False, False, True):
        optimizer.zero_grad()
        try:
            net(torch.randn(8, 4)).square().mean().backward()
        except ValueError as error:
            say(error)
        optimizer.step()
    say(net)


@program
def complex_by_hand(rank):
    """A warning would be an exception."""
    warnings.simplefilter("error")
    phase = nn.Parameter(torch.ones(4, dtype=torch.complex64))
    optimizer = torch.optim.SGD([phase], lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        ((phase * torch.randn(4)).abs().sum() / torch.tensor(4.0) * torch.ones(4, dtype=torch.bool)).mean().backward()
        dist.all_reduce(torch.view_as_real(phase.grad))
        nn.utils.clip_grad_norm_([phase], 1.0)
        optimizer.step()
    say(phase.detach().abs())


class Noisy(Dataset):
    def __len__(self):
        return 16

    def __getitem__(self, index):
        return torch.tensor(np.random.randn(4), dtype=torch.float32) + torch.randn(4)


def seed(number):
    np.random.seed(number)


@program
def seeded_workers(rank):
    ddp = DistributedDataParallel(network())
    optimizer = sgd(ddp)
    for workers in (2, 1):
        loader = DataLoader(Noisy(), 4, num_workers=workers, worker_init_fn=seed, persistent_workers=workers == 1)
        for _ in range(2):
            for x in loader:
                optimizer.zero_grad()
                ddp(x).square().mean().backward()
                optimizer.step()
    say(ddp)


class Queue(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = network()
        self.register_buffer("queue", torch.zeros(6, 1))
        self.register_buffer("place", torch.zeros((), dtype=torch.long))
        self.register_buffer("none", None)

    def forward(self, x, scale=None):
        y = self.net(x) * (1 if scale is None else scale)
        with torch.no_grad():
            self.queue[self.place] = y[0]
            self.place += 1
        return (y - self.queue.mean()).square().mean()


@program
def queued(rank):
    def loss(model):
        return model(torch.randn(8, 4), scale=torch.ones(8, 1)) * 2 / 3
    train(DistributedDataParallel(Queue()), loss=loss)
