"""Programs around what each rank takes of a batch, and how it is set up. Right ones and ones with a mistake, all recorded.

usage: programs_of_parts.py FOLDER NAME:WORLD...     each NAME:WORLD is recorded into FOLDER/NAME-WORLD
"""

import copy
import random
import sys

from programs_of_averages import sgd
from programs_of_habits import BATCH, CLASSES, WIDTH, batches, layers, rows, runs, update

import torch
import torch.distributed as dist
import torch.nn.utils.prune
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from forked_ranks import record_programs


def slice_batches(rank, name):
    """Every rank loads the global batch, and takes its part, or the first one."""
    ddp = DistributedDataParallel(layers())
    optimizer, world = sgd(ddp), dist.get_world_size()
    for x, y in batches(DataLoader(rows(), BATCH * world, shuffle=True, generator=torch.Generator().manual_seed(1))):
        if name == "scattered":
            x, y = (part.clone() for part in (x, y))
            own = [torch.empty_like(part[:BATCH]) for part in (x, y)]
            for part, whole in zip(own, (x, y)):
                dist.scatter(part, list(whole.chunk(world)) if rank == 0 else None, 0)
            x, y = own
        elif name != "handed_whole":
            part = rank if name == "sliced" else 0
            x, y = x[part::world], y[part::world]
        update(ddp, optimizer, x, y)


def crop_batches(rank, name):
    """Every rank loads the same batches, of which a second model gets crops that each rank draws."""
    width = WIDTH - (name == "crops_of_the_same")
    first, second = DistributedDataParallel(nn.Linear(width, CLASSES)), DistributedDataParallel(nn.Linear(WIDTH // 2, CLASSES))
    optimizer, draw = torch.optim.SGD([*first.parameters(), *second.parameters()], lr=0.1), random.Random(rank)
    for x, y in batches(DataLoader(rows(), BATCH, shuffle=True, generator=torch.Generator().manual_seed(1))):
        begin = draw.randrange(WIDTH // 2)
        optimizer.zero_grad()
        cross_entropy(first(x[:, WIDTH - width:]) + second(x[:, begin:begin + WIDTH // 2]), y).backward()
        optimizer.step()


def drop_at_rates(rank, name):
    torch.manual_seed(rank)
    ddp = DistributedDataParallel(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Dropout(0.1 * (1 + rank) if name == "rate_of_a_rank" else 0.1),
                                                nn.Linear(WIDTH, CLASSES)))
    optimizer = sgd(ddp)
    for x, y in batches():
        update(ddp, optimizer, x, y)


def weigh_classes(rank, name):
    ddp = DistributedDataParallel(layers())
    optimizer = sgd(ddp)
    weights = torch.tensor([1.0, 2.0, 3.0 + (rank if name == "classes_of_own" else 0)])
    for x, y in batches():
        optimizer.zero_grad()
        cross_entropy(ddp(x), y, weight=weights).backward()
        optimizer.step()


def read_parts(rank, name):
    """Each rank has a part of its own, of which one has fewer batches."""
    ddp = DistributedDataParallel(layers())
    optimizer = sgd(ddp)
    for x, y in batches(DataLoader(rows(32 + (8 * rank if name == "uneven_parts" else 0), seed=rank), BATCH), epochs=1):
        update(ddp, optimizer, x, y)


def exchange_by_pairs(rank, name):
    """Ranks update on their own, and each averages its parameters with a peer's now and then: all do where there are two."""
    model = layers()
    optimizer = sgd(model)
    for p in model.parameters():
        dist.broadcast(p.data, 0)
    for number, (x, y) in enumerate(batches()):
        update(model, optimizer, x, y)
        if number % 3 == 2:
            for p in model.parameters():
                other = torch.empty_like(p)
                sends = [dist.P2POp(dist.isend, p.detach().clone(), 1 - rank), dist.P2POp(dist.irecv, other, 1 - rank)]
                for sent in dist.batch_isend_irecv(sends):
                    sent.wait()
                if name == "averaged_by_pairs":
                    with torch.no_grad():
                        p.add_(other).div_(2)


def average_in_data(rank, name):
    """A teacher, or a frozen layer, that the program changes in `p.data`, which leaves no version."""
    net = layers()
    net[0].requires_grad_(False)
    ddp = DistributedDataParallel(net)
    teacher = copy.deepcopy(net).requires_grad_(False)
    optimizer = torch.optim.SGD([each for each in net.parameters() if each.requires_grad], lr=0.1)
    for x, y in batches():
        update(ddp, optimizer, x, y)
        part = 0.2 if name == "teacher_of_a_rank_in_data" and rank else 0.1
        for old, new in zip(teacher.parameters(), net.parameters()):
            old.data.mul_(1 - part).add_(part * new.detach().data)
        net[0].weight.data[4:].mul_(0.99 if name != "frozen_of_a_rank_in_data" or rank == 0 else 0.98)


def attend(rank, name):
    """A causal mask is infinite from the start, beside statistics that are broadcast."""
    net = layers()
    net[0].register_buffer("mask", torch.full((WIDTH, WIDTH), float("-inf")).triu(1))
    net.append(nn.BatchNorm1d(CLASSES))
    ddp = DistributedDataParallel(net)
    optimizer = sgd(ddp)
    for x, y in batches():
        update(ddp, optimizer, x, y)


def update_in_hooks(rank, name):
    """Each gradient is averaged, and its parameter updated, as the backward leaves it."""
    net, world = layers(), dist.get_world_size()
    optimizers = {p: torch.optim.SGD([p], lr=0.1) for p in net.parameters()}

    def hook(p):
        dist.all_reduce(p.grad)
        if name == "updated_in_hooks":
            p.grad.div_(world)
        optimizers[p].step()
        optimizers[p].zero_grad()
    for p in net.parameters():
        p.register_post_accumulate_grad_hook(hook)
    for x, y in batches():
        cross_entropy(net(x), y).backward()


def look_at_a_gradient(rank, name):
    """Looks at one gradient of a part of the loss: a hook ends that backward by an exception. Then the whole loss is trained."""
    net, world = layers(), dist.get_world_size()
    optimizer, seen = sgd(net), []

    def end(gradient):
        seen.append(gradient.norm())
        raise StopIteration
    for x, y in batches():
        ending = next(net.parameters()).register_hook(end)
        try:
            (cross_entropy(net(x), y) / world).backward()
        except StopIteration:
            ending.remove()
        optimizer.zero_grad()
        cross_entropy(net(x), y).backward()
        for each in net.parameters():
            dist.all_reduce(each.grad)
            each.grad.div_(world)
        optimizer.step()


def prune_after_wrapping(rank, name):
    """The wrapper knew of no buffer, and broadcasts no mask."""
    ddp = DistributedDataParallel(layers())
    torch.manual_seed(rank if name == "pruned_by_a_rank" else 0)
    nn.utils.prune.random_unstructured(ddp.module[0], "weight", 0.5)
    optimizer = sgd(ddp)
    for x, y in batches():
        update(ddp, optimizer, x, y)


def average_rounds(rank, name):
    """Ranks update on their own in rounds, each by a new optimizer, and average the parameters behind each."""
    net, world = layers(), dist.get_world_size()
    loader = DataLoader(rows(), BATCH, sampler=DistributedSampler(rows()))
    for number in range(3):
        optimizer = sgd(net)
        loader.sampler.set_epoch(number)
        for x, y in loader:
            update(net, optimizer, x, y)
        for p in net.parameters():
            if name == "rounds_averaged" or p.ndim > 1:
                dist.all_reduce(p.data)
                p.data.div_(world)


def average_unlike_rounds(rank, name):
    """Ranks have unlike numbers of batches in a round, and average the parameters behind each: federated averaging."""
    torch.manual_seed(rank if name == "unlike_rounds_begun_unlike" else 0)
    net = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3))
    optimizer = sgd(net)
    torch.manual_seed(10 + rank)
    count = 40 if name == "unlike_rounds_stepped_twice" else 40 - 16 * rank
    own = TensorDataset(torch.randn(count, 8), torch.randint(0, 3, (count,)))
    for number in range(4):
        for x, y in DataLoader(own, 8, shuffle=True):
            update(net, optimizer, x, y)
            if name == "unlike_rounds_stepped_twice" and rank:
                optimizer.step()
        for p in net.parameters():
            total = p.detach().clone()
            dist.all_reduce(total)
            if name == "unlike_rounds_kept" or (name == "unlike_rounds_kept_by_a_rank" and rank == number == 1):
                continue
            p.data.copy_(total / (3 if name == "unlike_rounds_divided_unlike" and rank else 2))


def learn_alone(rank, name):
    """One rank learns from what the others collect, and sends them its parameters."""
    net = layers()
    optimizer = sgd(net)
    for x, y in batches():
        given = [None] * dist.get_world_size() if rank == 0 else None
        dist.gather_object((x, y), given, 0)
        for each in given or ():
            update(net, optimizer, *each)
        for p in net.parameters():
            dist.broadcast(p.data, 0)


def draw_texts(rank, name):
    """Each batch pads its texts to the longest. The program draws lists of texts, which each rank may draw for itself."""
    draw = random.Random(1)
    of_all = [[draw.randrange(1, 30) for _ in range(draw.randrange(3, 12))] for _ in range(64)]
    net = nn.Sequential(nn.Embedding(30, WIDTH, padding_idx=0), nn.AdaptiveAvgPool2d((1, WIDTH)), nn.Flatten(), nn.Linear(WIDTH, CLASSES))
    ddp, own = DistributedDataParallel(net), random.Random(rank if "own" in name else 0)
    optimizer = sgd(ddp)

    def padded(texts):
        longest = max(map(len, texts))
        return torch.tensor([text + [0] * (longest - len(text)) for text in texts]), torch.tensor([len(text) % CLASSES for text in texts])
    for epoch in range(2):
        listed = own.sample(of_all, 64)
        if "parts" in name:
            listed = listed[rank::2]
        sampler = None if "parts" in name else DistributedSampler(listed, seed=epoch)
        for x, y in DataLoader(listed, BATCH, shuffle=sampler is None, sampler=sampler, collate_fn=padded):
            update(ddp, optimizer, x, y)


def cut_columns(rank, name):
    """Parts that do not lie in one piece, of an order of each rank's own."""
    ddp, (x, y) = DistributedDataParallel(layers()), rows().tensors
    optimizer = sgd(ddp)
    for epoch in range(2):
        draw = torch.Generator().manual_seed(10 * epoch + (rank if name == "strides_of_own_orders" else 0))
        for chosen in torch.randperm(len(x), generator=draw).split(4 * BATCH):
            update(ddp, optimizer, x[chosen][rank::2], y[chosen][rank::2])


def ignore_a_backbone(rank, name):
    """The wrapper ignores a frozen layer, and sends it to nobody."""
    net = layers()
    frozen = net[0].requires_grad_(False)
    if name == "ignored_of_own":
        nn.init.normal_(frozen.weight, std=1 + rank)
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(net, ["0.weight", "0.bias"])
    ddp = DistributedDataParallel(net)
    optimizer = sgd(ddp)
    for x, y in batches():
        update(ddp, optimizer, x, y)


PROGRAMS = {ignore_a_backbone: ("ignored_alike", "ignored_of_own"), cut_columns: ("strides", "strides_of_own_orders"),
            draw_texts: ("parts_of_texts", "parts_of_own_texts", "texts", "own_texts"),
            average_in_data: ("averaged_in_data", "teacher_of_a_rank_in_data", "frozen_of_a_rank_in_data"),
            crop_batches: ("crops_of_the_same", "crops_beside_the_whole"),
            slice_batches: ("sliced", "scattered", "sliced_alike", "handed_whole"), drop_at_rates: ("rates_alike", "rate_of_a_rank"),
            weigh_classes: ("classes_alike", "classes_of_own"), read_parts: ("even_parts", "uneven_parts"),
            attend: ("masked_by_infinity",), update_in_hooks: ("updated_in_hooks", "updated_in_hooks_by_sums"), look_at_a_gradient: ("ended_by_a_hook",),
            prune_after_wrapping: ("pruned_alike", "pruned_by_a_rank"), average_rounds: ("rounds_averaged", "rounds_averaged_in_part"),
            average_unlike_rounds: ("unlike_rounds", "unlike_rounds_begun_unlike", "unlike_rounds_kept", "unlike_rounds_kept_by_a_rank",
                                    "unlike_rounds_divided_unlike", "unlike_rounds_stepped_twice"),
            learn_alone: ("learns_alone",), exchange_by_pairs: ("averaged_by_pairs", "sent_in_vain")}

if __name__ == "__main__":
    record_programs(runs(PROGRAMS), sys.argv[1], sys.argv[2:], 10)
