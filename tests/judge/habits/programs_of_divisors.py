"""Programs that divide gradients, or losses, by a number of ranks or of terms, and schedulers that look at a loss. Right ones and ones with
a mistake, all recorded.

usage: programs_of_divisors.py FOLDER NAME:WORLD...     each NAME:WORLD is recorded into FOLDER/NAME-WORLD
"""

import contextlib
import sys

from programs_of_averages import IGNORED, sgd
from programs_of_habits import WIDTH, batches, layers, runs, update

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.optim.lr_scheduler import ReduceLROnPlateau

from forked_ranks import record_programs


def divide_by_hand(rank, name):
    """Behind the backward of a wrapper, which averages."""
    ddp = DistributedDataParallel(layers())
    optimizer, world = sgd(ddp), dist.get_world_size()
    for number, (x, y) in enumerate(batches()):
        is_last = name != "divided_accumulated" or number % world == world - 1
        with contextlib.nullcontext() if is_last else ddp.no_sync():
            loss = cross_entropy(ddp(x), y)
            (loss * world if name == "divided_multiplied" else loss).backward()
        if is_last:
            for p in ddp.parameters():
                p.grad /= world
            optimizer.step()
            optimizer.zero_grad()


def sum_over_all(rank, name):
    """A loss over the labels that all ranks have."""
    ddp = DistributedDataParallel(layers())
    if name == "labels_of_all_in_a_hook_that_sums":
        ddp.register_comm_hook(None, lambda state, bucket: dist.all_reduce(bucket.buffer(), async_op=True).get_future().then(
            lambda future: future.value()[0]))
    optimizer = sgd(ddp)
    for number, (x, y) in enumerate(batches()):
        y = y.clone()
        y[:1 + (rank + number) % 2] = IGNORED
        of_all = (y != IGNORED).sum()
        dist.all_reduce(of_all)
        optimizer.zero_grad()
        (cross_entropy(ddp(x), y, reduction="sum") / of_all).backward()
        if name == "labels_of_all_multiplied_behind":
            for p in ddp.parameters():
                p.grad *= dist.get_world_size()
        optimizer.step()


def sum_over_batches_of_all(rank, name):
    """Two batches make one update, and the program averages gradients itself, or adds them up."""
    model = layers()
    optimizer, world = sgd(model), dist.get_world_size()
    listed = [(x, torch.where(torch.arange(len(y)) < 1 + (rank + number // 2) % 2, IGNORED, y)) for number, (x, y) in enumerate(batches())]
    for pair in zip(listed[::2], listed[1::2]):
        of_all = sum((y != IGNORED).sum() for _, y in pair)
        if "of_own" not in name:
            dist.all_reduce(of_all)
        optimizer.zero_grad()
        for x, y in pair:
            (cross_entropy(model(x), y, reduction="sum") / of_all).backward()
        for p in model.parameters():
            dist.all_reduce(p.grad)
            p.grad /= 1 if "added_up" in name else world
        optimizer.step()


class Multiplying(torch.optim.SGD):
    """Its step multiplies gradients by the number of ranks."""

    def __init__(self, parameters, lr, times):
        super().__init__(parameters, lr)
        self.times = times

    @torch.no_grad()
    def step(self, closure=None):
        self.times -= 1
        for p in [p for group in self.param_groups for p in group["params"]] if self.times >= 0 else ():
            p.grad.mul_(dist.get_world_size())
        return super().step()


def multiply_in_the_step(rank, name):
    """A loss over the labels of all ranks, and gradients that the optimizer's step, or a hook of it, multiplies."""
    ddp, world = DistributedDataParallel(layers()), dist.get_world_size()
    parameters = list(ddp.parameters())
    if "hook_divides" in name:
        ddp.register_comm_hook(None, lambda state, bucket: dist.all_reduce(bucket.buffer().div_(world if name == "hook_divides_and_again_summed" else world * world), async_op=True).get_future().then(
            lambda future: future.value()[0]))
    some, rest = (parameters, []) if name != "own_step_of_a_part" else (parameters[:2], parameters[2:])
    own = {"own_step": 100, "own_step_of_a_part": 100, "own_step_once": 1, "own_step_nine_times": 9}.get(name)
    optimizers = [Multiplying(some, 0.1, own) if own else sgd(ddp)] + [torch.optim.SGD(each, 0.1) for each in [rest] if each]
    calls = []

    def change(optimizer, args, kwargs):
        calls.append(optimizer)
        for p in parameters if name != "step_hook_once" or len(calls) == 1 else ():
            p.grad.mul_(1 / world if name == "step_hook_that_divides" else world)
    if name.startswith("step_hook"):
        (optimizers[0].register_step_post_hook if name == "step_hook_behind" else optimizers[0].register_step_pre_hook)(change)
        once = optimizers[0].register_step_pre_hook(lambda *_: once.remove())  # The last hook; the recorder must leave it its dictionary.
    for number, (x, y) in enumerate(batches()):
        ddp.zero_grad()
        if "hook_divides" in name or name == "step_hook_that_divides":
            cross_entropy(ddp(x), y).backward()
        else:
            y = y.clone()
            y[:1 + (rank + number) % 2] = IGNORED
            of_all = (y != IGNORED).sum()
            dist.all_reduce(of_all)
            (cross_entropy(ddp(x), y, reduction="sum") / of_all).backward()
        for p in parameters if name == "hook_divides_and_again_summed" else ():
            dist.all_reduce(p.grad)
        for optimizer in optimizers:
            optimizer.step()


def sum_beside_a_head(rank, name):
    """An embedding that the program sums by hand, and a wrapped head whose averages it makes sums: each has an optimizer."""
    embed, head, world = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 3), dist.get_world_size()
    ddp, optimizers = DistributedDataParallel(head), [sgd(embed), sgd(head)]
    for number, (x, y) in enumerate(batches()):
        y = y.clone()
        y[:1 + (rank + number) % 2] = IGNORED
        of_all = (y != IGNORED).sum()
        dist.all_reduce(of_all)
        for each in optimizers:
            each.zero_grad()
        (cross_entropy(ddp(embed(x).tanh()), y, reduction="sum") / of_all).backward()
        for p in head.parameters():
            p.grad *= 1 if name == "sums_beside_an_average" else world
        for p in embed.parameters():
            dist.all_reduce(p.grad)
        for each in optimizers:
            each.step()


def take_half(rank, name):
    """Halves of a mean, which weigh one on two ranks together."""
    ddp = DistributedDataParallel(layers())
    optimizer = sgd(ddp)
    for number, (x, y) in enumerate(batches()):
        x, y = x[number % 2:], y[number % 2:]
        optimizer.zero_grad()
        (cross_entropy(ddp(x), y, reduction="sum") / (2 * len(y))).backward()
        optimizer.step()


def accumulate_and_sum(rank, name):
    """Backwards of four batches add up, or of three losses of one batch, and the program sums gradients over the ranks."""
    model, count = layers(), 3 if "losses" in name else 4
    optimizer, world = sgd(model), dist.get_world_size()
    divisor = {"accumulated_and_summed": count, "accumulated_divided_and_summed": count * world}.get(name, world)
    for number, (x, y) in enumerate(batches()):
        for times in range(count if "losses" in name else 1):
            (cross_entropy(model(x) / (1 + times), y) / divisor).backward()
        if number % count == count - 1 or "losses" in name:
            for p in model.parameters():
                dist.all_reduce(p.grad)
            optimizer.step()
            optimizer.zero_grad()


def average_by_hand(rank, name):
    """The loss has an auxiliary part that weighs a tenth, or half, or several batches."""
    model = layers()
    optimizer = sgd(model)

    def average():
        for p in model.parameters():
            dist.all_reduce(p.grad)
            p.grad /= {"divided_by_three": 3, "auxiliary_summed": 1, "auxiliary_of_half_summed": 1, "weights_divided": 1,
                       "summed_over_batches": 2 * dist.get_world_size()}.get(name, dist.get_world_size())
        for p in list(model.parameters())[:2] if name == "scaled_on_purpose" else ():
            p.grad *= 0.1
    for x, y in batches():
        optimizer.zero_grad()
        output = model(x)
        loss = cross_entropy(output, y)
        if name == "summed_over_batches":
            loss = loss + cross_entropy(model(x.flip(0)), y.flip(0))
        auxiliary = output.square().mean()
        if name == "weights_divided":
            loss, auxiliary = 5 * loss / dist.get_world_size(), 10 * auxiliary / dist.get_world_size()
        (loss + (0.5 if name == "auxiliary_of_half_summed" else 0.1) * auxiliary).backward()
        average()
        optimizer.step()


def average_in_callbacks(rank, name):
    """A backward averages as it ends, in what hooks queue in the engine, or as it goes, in hooks of nodes."""
    model, is_due = layers(), False
    optimizer, world = sgd(model), dist.get_world_size()
    parameters = list(model.parameters())

    def average():
        nonlocal is_due
        if is_due:
            is_due = False
            flat = torch.cat([p.grad.reshape(-1) for p in parameters])
            dist.all_reduce(flat)
            flat /= 1 if "sum" in name else world
            for p, part in zip(parameters, flat.split([p.numel() for p in parameters])):
                p.grad.copy_(part.view_as(p))

    def average_one(p):
        dist.all_reduce(p.grad)
        p.grad /= world
    nodes = [p.expand_as(p).grad_fn.next_functions[0][0] for p in parameters]
    for p, node in zip(parameters, nodes):
        if "node" in name:
            node.register_hook(lambda *_, p=p: average_one(p))
        else:
            p.register_hook(lambda _: torch.autograd.Variable._execution_engine.queue_callback(average))
    for x, y in batches():
        if "one_batch" in name:
            dist.broadcast(x, 0)
            dist.broadcast(y, 0)
        is_due = True
        optimizer.zero_grad()
        cross_entropy(model(x), y).backward()
        torch.nn.utils.clip_grad_norm_(parameters, 100.0)
        optimizer.step()


def schedule(rank, name):
    ddp = DistributedDataParallel(layers())
    optimizer = sgd(ddp)
    scheduler = ReduceLROnPlateau(optimizer, patience=100)
    for x, y in batches():
        update(ddp, optimizer, x, y)
        with torch.no_grad():
            loss = cross_entropy(ddp.module(x), y)
        if "_of_all" in name:
            dist.all_reduce(loss)
        scheduler.step(loss.numpy()[()] if "numpy" in name else loss.item())


PROGRAMS = {divide_by_hand: ("divided_again", "divided_accumulated", "divided_multiplied"),
            sum_over_all: ("labels_of_all", "labels_of_all_multiplied_behind", "labels_of_all_in_a_hook_that_sums"),
            sum_over_batches_of_all: ("batches_of_all", "batches_of_all_added_up", "batches_of_own"),
            multiply_in_the_step: ("step_hook", "step_hook_behind_a_hook_divides", "own_step", "own_step_of_a_part", "own_step_once", "own_step_nine_times", "step_hook_once", "step_hook_behind",
                                   "step_hook_that_divides", "hook_divides_and_again_summed"),
            accumulate_and_sum: ("accumulated_and_summed", "accumulated_divided_and_summed", "losses_divided_and_summed"),
            sum_beside_a_head: ("sums", "sums_beside_an_average"), take_half: ("halves",),
            average_by_hand: ("divided_by_ranks", "divided_by_three", "auxiliary_summed", "auxiliary_of_half_summed", "weights_divided", "summed_over_batches", "scaled_on_purpose"),
            average_in_callbacks: ("callbacks_that_average", "callbacks_that_sum", "callbacks_on_one_batch", "nodes_that_average"),
            schedule: ("plateau_of_all", "plateau_of_own", "numpy_plateau_of_all", "numpy_plateau_of_own")}


if __name__ == "__main__":
    record_programs(runs(PROGRAMS), sys.argv[1], sys.argv[2:], 10)
