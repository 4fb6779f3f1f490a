"""Programs whose ranks send each other parameters, or one rank's gradients, and some that are uneven. Right ones and ones with a mistake,
all recorded.

usage: programs_of_exchanges.py FOLDER NAME:WORLD...     each NAME:WORLD is recorded into FOLDER/NAME-WORLD
"""

import copy
import os
import sys

from programs_of_averages import sgd
from programs_of_habits import BATCH, CLASSES, WIDTH, batches, layers, rows, runs, update
from programs_of_ways import average_by_hand

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.join import Join
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, Subset, SubsetRandomSampler

import lockstep_recorder
from forked_ranks import record_programs


def evolve_a_population(rank, name):
    """Each rank trains a model of its own on all data, and now and then the best takes the place of the others."""
    model = layers()
    is_alike = name == "best_of_alike"
    torch.manual_seed(rank)
    if not is_alike:
        model.apply(lambda each: each.reset_parameters() if isinstance(each, nn.Linear) else None)
    optimizer = sgd(model, 0.1 if is_alike else 0.05 * (1 + rank))
    file = os.path.join(sys.argv[1], name + ".pt")
    for number in range(4):
        for x, y in DataLoader(rows(), BATCH, shuffle=True):
            update(model, optimizer, x, y)
        best = 0 if name == "first_of_a_population" else number % 2
        if name == "population_by_file":
            if rank == best:
                torch.save(model.state_dict(), file)
            dist.barrier()
            model.load_state_dict(torch.load(file))
            dist.barrier()
        else:
            for p in model.parameters():
                dist.broadcast(p.data, best)


def take_turns_at_sending(rank, name):
    """Where an average was meant, one rank sends its model, another in each step; or all do, and the last one wins."""
    torch.manual_seed(rank)
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, CLASSES))
    optimizer = sgd(model)
    for number, (x, y) in enumerate(batches()):
        update(model, optimizer, x, y)
        for sender in range(2) if name == "all_send" else (number % 2,):
            for p in model.parameters():
                dist.broadcast(p.data, sender)


def divide_updates(rank, name):
    """Each rank updates every other tensor and sends it, as ZeRO does."""
    net = layers()
    if "alike" in name:
        net = nn.Sequential(nn.Linear(WIDTH, WIDTH, bias=False), nn.Tanh(), nn.Linear(WIDTH, WIDTH, bias=False))
    is_wrapped = "wrapped" in name
    model = DistributedDataParallel(net) if is_wrapped else lockstep_recorder.watch(net) if "watched" in name else net
    bound = nn.Parameter(torch.zeros(()))  # Of a value that is clamped, at its bound from the beginning.
    if name.endswith("at_a_bound"):
        net.register_parameter("bound", bound)
    own = {p: number % 2 for number, p in enumerate(net.parameters())}
    optimizer = torch.optim.Adam([p for p, owner in own.items() if owner == rank], 1e-2)
    for x, y in batches():
        net.zero_grad()
        cross_entropy(model(x), y).backward()
        if bound.grad is None:
            bound.grad = torch.ones(())
        if not is_wrapped and not name.endswith("own_gradients"):
            average_by_hand(net)
        optimizer.step()
        bound.data.clamp_(min=0)
        for number, (p, owner) in enumerate(own.items()):
            dist.broadcast(p.data, 1 - owner if "by_another" in name and number == 1 else owner)


class Sliced(torch.optim.Optimizer):
    """Its step sums gradients, updates this rank's rows with momentum of their own, and gathers what all ranks have updated."""

    def __init__(self, parameters, name):
        super().__init__(parameters, {"lr": 0.1})
        self.name = name

    @torch.no_grad()
    def step(self):
        world, rank = dist.get_world_size(), dist.get_rank()
        for p in self.param_groups[0]["params"]:
            own, size = torch.empty_like(p[:len(p) // world]), len(p) // world
            if self.name == "sliced_and_thrown":
                raise ValueError("before it averaged")
            dist.all_reduce(p.grad)
            momentum = self.state[p].setdefault("momentum", torch.zeros_like(own))
            momentum.mul_(0.9).add_(p.grad[rank * size:(rank + 1) * size] / world)
            own.copy_(p[rank * size:(rank + 1) * size] - self.param_groups[0]["lr"] * momentum)
            if self.name == "slices_in_one_sum":
                moved = torch.zeros_like(p)
                moved[rank * size:(rank + 1) * size] = own - p[rank * size:(rank + 1) * size]
                dist.all_reduce(moved)
                p.add_(moved)
                continue
            parts = [torch.empty_like(own) for _ in range(world)]
            dist.all_gather(parts, own)
            if self.name == "slices_that_are_kept":
                parts[1 - rank] = p[(1 - rank) * size:(2 - rank) * size].clone()
            p.copy_(torch.cat(parts))


class Owned(torch.optim.SGD):
    """Its step updates every other tensor with momentum of its own, and sends it."""

    @torch.no_grad()
    def step(self, closure=None):
        for number, p in enumerate(self.param_groups[0]["params"]):
            if number % 2 == dist.get_rank():
                momentum = self.state[p].setdefault("momentum_buffer", torch.zeros_like(p))
                p.sub_(self.param_groups[0]["lr"] * momentum.mul_(0.9).add_(p.grad))
            dist.broadcast(p.data, number % 2)


def keep_owned_states(rank, name):
    model = DistributedDataParallel(layers())
    optimizer = Owned(model.parameters(), 0.1)
    for number, (x, y) in enumerate(batches()):
        if number == 2 and name == "owned_states_of_rank_0":
            states = [optimizer.state_dict()]
            dist.broadcast_object_list(states)
            optimizer.load_state_dict(states[0])
        update(model, optimizer, x, y)


def keep_own_slices(rank, name):
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH, bias=False), nn.Tanh(), nn.Linear(WIDTH, WIDTH, bias=False))
    optimizer = Sliced(model.parameters(), name)
    for x, y in batches():
        dist.all_reduce(x.sum())
        update(model, optimizer, x, y)


def take_the_first_gradients(rank, name):
    model = layers()
    optimizer = sgd(model)
    for x, y in batches():
        update(model, optimizer, x, y, lambda: [dist.broadcast(p.grad, 0) for p in model.parameters()])


def join_divided(rank, name):
    ddp = DistributedDataParallel(layers())
    optimizer = ZeroRedundancyOptimizer(ddp.parameters(), torch.optim.SGD, lr=0.1)
    own = DataLoader(Subset(rows(), range(rank, 56 if rank else 64, 2)), BATCH)
    for _ in range(2):
        with Join([ddp, optimizer]):
            for x, y in own:
                update(ddp, optimizer, x, y)


def draw_subsets(rank, name):
    ddp = DistributedDataParallel(layers())
    optimizer = sgd(ddp)
    for epoch in range(2):
        seed = epoch if name == "subsets_of_one_order" else 34 * rank + epoch  # By which 16 samples, two batches, are drawn by both.
        order = torch.randperm(64, generator=torch.Generator().manual_seed(seed)).tolist()
        for x, y in DataLoader(rows(), 2 * BATCH, sampler=SubsetRandomSampler(order[rank::2])):
            update(ddp, optimizer, x, y)


class Buckets(DistributedSampler):
    """Deals batches of buckets of samples, each of which it pads, as samplers by length do."""

    def __iter__(self):
        begin = 0
        for size in (17, 17, 47, 47):
            order = torch.randperm(size, generator=torch.Generator().manual_seed(self.seed + self.epoch))
            bucket = (begin + order).tolist()
            bucket += bucket[:-size % (BATCH * self.num_replicas)]
            own, begin = bucket[self.rank::self.num_replicas], begin + size
            yield from (own[at:at + BATCH] for at in range(0, len(own), BATCH))

    def __len__(self):
        return 18


def draw_buckets(rank, name):
    ddp = DistributedDataParallel(layers())
    optimizer = sgd(ddp)
    seed = rank if name == "buckets_of_own_orders" else 0
    sampler = Buckets(rows(128), rank=0 if name == "buckets_of_rank_0" else rank, seed=seed)
    loader = DataLoader(rows(128), batch_sampler=sampler)
    for epoch in range(2):
        sampler.set_epoch(10 * epoch)
        for x, y in loader:
            update(ddp, optimizer, x, y)


def learn_from_a_target(rank, name):
    """It takes the model's weights now and then."""
    net = layers()
    target, ddp = copy.deepcopy(net).requires_grad_(False), DistributedDataParallel(net)
    optimizer = sgd(ddp)
    for number, (x, _) in enumerate(batches()):
        optimizer.zero_grad()
        (ddp(x) - target(x).max(1, keepdim=True).values).square().mean().backward()
        optimizer.step()
        if number % (3 + (rank if name == "target_of_other_steps" else 0)) == 2:
            target.load_state_dict(net.state_dict())


PROGRAMS = {evolve_a_population: ("population", "population_by_file", "first_of_a_population", "best_of_alike"),
            divide_updates: ("parts", "alike_parts", "watched_parts", "wrapped_parts", "parts_by_another", "watched_parts_by_another",
                             "wrapped_parts_by_another", "watched_parts_at_a_bound", "parts_of_own_gradients",
                             "watched_parts_of_own_gradients"),
            take_turns_at_sending: ("turns", "all_send"),
            keep_owned_states: ("owned_states", "owned_states_of_rank_0"),
            keep_own_slices: ("sliced_states", "slices_in_one_sum", "slices_that_are_kept", "sliced_and_thrown"),
            take_the_first_gradients: ("gradients_of_rank_0",), join_divided: ("joined_divided",),
            draw_buckets: ("shuffled_buckets", "buckets_of_rank_0", "buckets_of_own_orders"),
            draw_subsets: ("subsets_of_one_order", "subsets_of_own_orders"), learn_from_a_target: ("target", "target_of_other_steps")}

if __name__ == "__main__":
    record_programs(runs(PROGRAMS), sys.argv[1], sys.argv[2:], 10)
