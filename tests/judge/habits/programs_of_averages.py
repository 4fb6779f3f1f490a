"""Programs around what becomes of gradients before an update takes them, and of what each rank makes for itself. Right ones and ones with a
mistake, all recorded.

usage: programs_of_averages.py FOLDER NAME:WORLD...     each NAME:WORLD is recorded into FOLDER/NAME-WORLD
"""

import contextlib
import random
import sys

from programs_of_habits import BATCH, CLASSES, SAMPLES, WIDTH, batches, layers, rows, runs, update

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy, normalize
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

from forked_ranks import record_programs

IGNORED = -100


def sgd(model, rate=0.1):
    return torch.optim.SGD(model.parameters(), lr=rate)


def count_tokens(rank, name):
    """Each rank ignores another number of labels."""
    ddp = DistributedDataParallel(layers())
    optimizer = sgd(ddp)
    for number, (x, y) in enumerate(batches()):
        y = y.clone()
        if name != "tokens_but_in_the_last_batch" or number == 7:
            y[:1 + (rank + number) % 2] = IGNORED
        own = (y != IGNORED).sum()
        of_all = own.clone()
        dist.all_reduce(of_all)
        optimizer.zero_grad()
        output = ddp(x)
        loss = cross_entropy(output, y, reduction="mean" if "mean" in name or name.startswith("tokens_but") else "sum")
        if name == "tokens_of_all":
            loss = loss * dist.get_world_size() / of_all
        elif name == "mean_weighted_by_tokens":
            loss = loss * (own * dist.get_world_size() / of_all)
        elif name == "sum_by_own_tokens":
            loss = loss / own.item()
        loss.backward()
        optimizer.step()


def clip_scaled(rank, name):
    ddp = DistributedDataParallel(layers())
    optimizer, scaler = sgd(ddp), torch.amp.GradScaler("cpu")
    for x, y in batches():
        optimizer.zero_grad()
        scaler.scale(cross_entropy(ddp(x), y)).backward()
        if name == "clipped_unscaled":
            scaler.unscale_(optimizer)
        elif name == "unscaled_by_hand":
            for each in ddp.parameters():
                each.grad.data.div_(scaler.get_scale())
        nn.utils.clip_grad_norm_(ddp.parameters(), scaler.get_scale() if name == "clipped_by_the_scale" else 0.1)
        if name == "unscaled_by_hand":
            optimizer.step()
        else:
            scaler.step(optimizer)
        if name != "unscaled_by_hand":
            scaler.update()


def average_in_a_hook(rank, name):
    world = dist.get_world_size()

    def hook(state, bucket):
        if name == "hook_that_averages" or "divides" in name:
            bucket.buffer().div_(world)
        if "divides" in name:
            return dist.all_reduce(bucket.buffer(), async_op=True).get_future().then(lambda done: done.value()[0].div_(world))
        return dist.all_reduce(bucket.buffer(), async_op=True).get_future().then(lambda done: done.value()[0])
    ddp = DistributedDataParallel(layers())
    ddp.register_comm_hook(None, hook)
    optimizer = sgd(ddp)
    for x, y in batches():
        optimizer.zero_grad()
        loss = cross_entropy(ddp(x), y)
        weight = {"hook_that_sums_a_divided_loss": 1 / world, "hook_that_divides_a_multiplied_loss": world}.get(name)
        (loss if weight is None else loss * weight).backward()
        optimizer.step()


def average_in_tensor_hooks(rank, name):
    """Gradients are sent as they come, by hooks of parameters."""
    net, world = layers(), dist.get_world_size()
    model = DistributedDataParallel(net) if name in ("tensor_hooks_that_sum_averages", "tensor_hooks_that_double") else net

    def average(gradient):
        if name == "tensor_hooks_that_double":
            return 2 * gradient
        gradient = gradient.clone()
        dist.all_reduce(gradient)
        return gradient / world if name == "tensor_hooks_that_average" else gradient
    for each in net.parameters():
        each.register_hook(average)
    optimizer = sgd(net)
    for x, y in batches():
        optimizer.zero_grad()
        loss = cross_entropy(model(x), y)
        (loss / world if name == "tensor_hooks_that_sum_divided_losses" else loss).backward()
        optimizer.step()


def average_accumulated(rank, name):
    """Divided by the number of ranks and of backwards, both of which are 2."""
    net, world = layers(), dist.get_world_size()
    optimizer = sgd(net)
    for number, (x, y) in enumerate(batches()):
        cross_entropy(net(x), y).backward()
        if number % 2:
            for each in net.parameters():
                dist.all_reduce(each.grad)
                each.grad.div_(2 * world)
            optimizer.step()
            optimizer.zero_grad()


def average_by_hand(rank, name):
    net = layers()
    optimizer, world = sgd(net), dist.get_world_size()
    for x, y in batches():
        optimizer.zero_grad()
        loss = cross_entropy(net(x), y)
        (loss / world if name == "summed_of_divided_losses" else loss).backward()
        if name == "clipped_before_the_average":
            nn.utils.clip_grad_norm_(net.parameters(), 0.01)
        works = [dist.all_reduce(each.grad, async_op=name.startswith("waited")) for each in net.parameters()]
        for work, each in zip(works, net.parameters()):
            if name == "waited":
                work.wait()
            elif name == "waited_by_futures":
                work.get_future().wait()
            if not name.startswith("summed"):
                each.grad.div_(world)
        if name in ("clipped_behind_the_average", "summed_and_clipped"):
            nn.utils.clip_grad_norm_(net.parameters(), 0.01)
        optimizer.step()


def begin_reductions(rank, name):
    """The reductions come to their end, and the program never asks."""
    net = layers()
    optimizer = sgd(net)
    for x, y in batches():
        optimizer.zero_grad()
        cross_entropy(net(x), y).backward()
        for each in net.parameters():
            each.grad.div_(dist.get_world_size())
        works = [dist.all_reduce(each.grad, async_op=True) for each in net.parameters()]
        dist.barrier()
        optimizer.step()
        del works


def accumulate_alike(rank, name):
    """Batches that are nearly the same: the first one's gradients, summed over the ranks, are nearly the average of both."""
    ddp = DistributedDataParallel(layers())
    optimizer = sgd(ddp)
    for number, (x, y) in enumerate(batches()):
        with ddp.no_sync() if number % 2 == 0 else contextlib.nullcontext():
            cross_entropy(ddp(1 + 0.001 * x), 0 * y).backward()
        if number % 2:
            optimizer.step()
            optimizer.zero_grad()


def average_again(rank, name):
    ddp = DistributedDataParallel(layers())
    optimizer, world = sgd(ddp), dist.get_world_size()

    def again():
        for each in ddp.parameters():
            dist.all_reduce(each.grad)
            if name == "averaged_again":
                each.grad.div_(world)
    for x, y in batches():
        update(ddp, optimizer, x, y, again)


class Noisy(Dataset):
    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        x, y = rows()[index]
        return x + float(np.random.randn()) + random.random(), y


def seed_by_number(number):
    np.random.seed(number)
    random.seed(number)


def seed_by_rank(number):
    np.random.seed(torch.initial_seed() % 2**32)


def seed_workers(rank, name):
    ddp = DistributedDataParallel(layers())
    optimizer = sgd(ddp)
    torch.manual_seed(rank)
    data = rows() if name == "seeded_in_vain" else Noisy()
    loader = DataLoader(data, BATCH, sampler=DistributedSampler(data), num_workers=2,
                        worker_init_fn=seed_by_rank if name == "workers_by_rank" else seed_by_number)
    for x, y in batches(loader):
        update(ddp, optimizer, x.float(), y)


def cut_batches(rank, name):
    """Without a loader."""
    ddp = DistributedDataParallel(layers())
    optimizer, world = sgd(ddp), dist.get_world_size()
    draw = torch.Generator().manual_seed(rank if "own" in name else 0)
    whole = rows().tensors
    for _ in range(1 if name == "cut_of_own_orders_once" else 3):
        order = torch.randperm(SAMPLES, generator=draw)
        if name == "drawn_at_random":
            order = torch.randint(SAMPLES, (SAMPLES,), generator=torch.Generator().manual_seed(rank))
        for part in (order if name == "own_whole_orders" else order[rank::world]).split(BATCH):
            update(ddp, optimizer, whole[0][part], whole[1][part])


class Contrast(nn.Module):
    """Keys of earlier batches wait in a queue."""

    def __init__(self, gathers):
        super().__init__()
        self.gathers, self.encoder = gathers, layers()
        self.register_buffer("queue", normalize(torch.randn(16, CLASSES, generator=torch.Generator().manual_seed(0))))

    def forward(self, x):
        features = normalize(self.encoder(x))
        keys = features.detach()
        if self.gathers:
            of_all = [torch.zeros_like(keys) for _ in range(dist.get_world_size())]
            dist.all_gather(of_all, keys)
            keys = torch.cat(of_all)
        logits = torch.cat([(features * features.detach()).sum(1, keepdim=True), features @ self.queue.clone().T], 1)
        self.queue.copy_(torch.cat([keys, self.queue])[:16])
        return logits


def keep_a_queue(rank, name):
    ddp = DistributedDataParallel(Contrast(name == "queue_of_all"))
    optimizer = sgd(ddp)
    for x, _ in batches():
        update(ddp, optimizer, x, torch.zeros(len(x), dtype=torch.long))


def mix(rank, name):
    """Two losses of one batch, weighed by numbers that each rank draws, as mixup does."""
    ddp = DistributedDataParallel(layers())
    optimizer, drawn = sgd(ddp), random.Random(rank)
    for x, y in batches():
        part, other = drawn.random(), y.flip(0)
        optimizer.zero_grad()
        output = ddp(part * x + (1 - part) * x.flip(0))
        loss = part * cross_entropy(output, y) + (1 - part) * cross_entropy(output, other)
        (loss * (1 + rank) if name == "mixed_by_rank" else loss).backward()
        optimizer.step()


def wrap_for_one(rank, name):
    groups = [dist.new_group([each]) for each in range(dist.get_world_size())]
    ddp = DistributedDataParallel(layers(), process_group=groups[rank])
    optimizer = sgd(ddp)
    for x, y in batches():
        update(ddp, optimizer, x, y)


PROGRAMS = {count_tokens: ("tokens_of_all", "mean_weighted_by_tokens", "tokens_but_in_the_last_batch", "mean_of_own_tokens", "sum_by_own_tokens"),
            clip_scaled: ("clipped_unscaled", "unscaled_by_hand", "clipped_by_the_scale", "clipped_scaled"),
            average_in_a_hook: ("hook_that_averages", "hook_that_sums_a_divided_loss", "hook_that_sums", "hook_that_divides_twice",
                                "hook_that_divides_a_multiplied_loss"),
            average_in_tensor_hooks: ("tensor_hooks_that_average", "tensor_hooks_that_sum", "tensor_hooks_that_sum_averages",
                                      "tensor_hooks_that_sum_divided_losses", "tensor_hooks_that_double"),
            average_accumulated: ("averaged_over_accumulated",),
            average_by_hand: ("waited", "waited_by_futures", "averaged_by_hand", "summed_of_divided_losses", "summed_by_hand",
                              "clipped_before_the_average", "clipped_behind_the_average", "summed_and_clipped"),
            accumulate_alike: ("accumulated_alike",), begin_reductions: ("not_waited",), average_again: ("averaged_again", "summed_again"),
            seed_workers: ("workers_by_rank", "seeded_in_vain", "workers_by_number"),
            cut_batches: ("cut_of_one_order", "drawn_at_random", "cut_of_own_orders", "cut_of_own_orders_once", "own_whole_orders"),
            mix: ("mixed", "mixed_by_rank"), keep_a_queue: ("queue_of_all", "queue_of_own"), wrap_for_one: ("group_of_one",)}


if __name__ == "__main__":
    record_programs(runs(PROGRAMS), sys.argv[1], sys.argv[2:], 10)
