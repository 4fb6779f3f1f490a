"""Programs that average, evaluate or keep buffers in ways of their own. Right ones and ones with a mistake, all recorded.

usage: programs_of_ways.py FOLDER NAME:WORLD...     each NAME:WORLD is recorded into FOLDER/NAME-WORLD
"""

import copy
import sys

from programs_of_averages import sgd
from programs_of_habits import BATCH, CLASSES, WIDTH, batches, layers, rows, runs, update

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy, normalize
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, Subset

from forked_ranks import record_programs


def gathered(tensor):
    everyones = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(everyones, tensor)
    return torch.stack(everyones)


REDUCED = {"mean_of_gathered": lambda g: gathered(g).mean(0), "first_of_gathered": lambda g: gathered(g)[0],
           "median_of_gathered": lambda g: gathered(g).median(0)[0]}


def reduce_by_hand(rank, name):
    model = layers()
    optimizer = sgd(model)

    def reduce():
        for p in model.parameters():
            if name == "largest":
                dist.all_reduce(p.grad, op=dist.ReduceOp.MAX)
            else:
                p.grad = REDUCED[name](p.grad)
    for x, y in batches():
        update(model, optimizer, x, y, reduce)


def average_by_hand(model):
    for p in model.parameters():
        dist.all_reduce(p.grad)
        p.grad /= dist.get_world_size()


def cut_batches(rank, name):
    """Without a loader or a wrapper, from one order of all samples."""
    model, (x, y), world = layers(), rows().tensors, dist.get_world_size()
    optimizer, draw = sgd(model), torch.Generator().manual_seed(1)
    for step in range(8):
        chosen = torch.randperm(len(x), generator=draw)[:BATCH * world]
        chosen = chosen[rank if name == "cut_by_rank" else 0::world]
        update(model, optimizer, x[chosen], y[chosen], lambda: average_by_hand(model))


def accumulate(rank, name):
    """Each backward's gradients are averaged, or summed, and the next one's are added."""
    model = layers()
    optimizer = sgd(model)
    for number, (x, y) in enumerate(batches()):
        (cross_entropy(model(x), y) / 2).backward()
        for p in model.parameters():
            dist.all_reduce(p.grad)
            if number % 2 or name == "averaged_each_time":
                p.grad /= dist.get_world_size()
        if number % 2:
            optimizer.step()
            optimizer.zero_grad()


def keep_statistics(rank, name):
    net = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH), nn.Linear(WIDTH, CLASSES))
    for tensor in net.state_dict().values():
        dist.broadcast(tensor, 0)
    optimizer = sgd(net)
    for x, y in batches():
        update(net, optimizer, x, y, lambda: average_by_hand(net))
        for buffer in net.buffers() if name == "averaged_statistics" else ():
            if buffer.is_floating_point():
                dist.all_reduce(buffer)
                buffer /= dist.get_world_size()


class Centred(nn.Module):
    def __init__(self, is_shared):
        super().__init__()
        self.register_buffer("centre", torch.zeros(CLASSES))
        self.is_shared = is_shared

    def forward(self, out, y):
        mean = out.detach().mean(0)
        if self.is_shared:
            dist.all_reduce(mean)
            mean /= dist.get_world_size()
        self.centre.lerp_(mean, 0.1)
        return cross_entropy(out - self.centre, y)


def centre(rank, name):
    ddp, loss = DistributedDataParallel(layers()), Centred(name == "shared_centre")
    optimizer = sgd(ddp)
    for x, y in batches():
        optimizer.zero_grad()
        loss(ddp(x), y).backward()
        optimizer.step()


def evaluate(rank, name):
    drops = name == "drops_the_last"
    data = rows(31 if drops else 30, seed=2)
    held_out = DataLoader(data, BATCH, sampler=DistributedSampler(data, shuffle=False, drop_last=drops))
    if name.startswith("subsets"):
        held_out = DataLoader(Subset(data, range(rank, 30, dist.get_world_size())), BATCH)
    ddp = DistributedDataParallel(layers())
    optimizer, best = sgd(ddp), copy.deepcopy(ddp.module.state_dict())
    for number, (x, y) in enumerate(batches()):
        update(ddp, optimizer, x, y)
        if number == (8 + rank if name == "own_best" else 8):
            best = copy.deepcopy(ddp.module.state_dict())
    if name in ("own_best", "shared_best"):
        ddp.module.load_state_dict(best)
    ddp.eval()
    if name != "rank_0_alone" or rank == 0:
        with torch.no_grad():
            right = sum((ddp.module if name == "rank_0_alone" else ddp)(x).argmax(1).eq(y).sum() for x, y in held_out)
        if name in ("reduced", "shared_best", "own_best", "drops_the_last", "subsets_reduced"):
            dist.all_reduce(right)


def take_first_batches(rank, name):
    ddp, sampler = DistributedDataParallel(layers()), DistributedSampler(rows())
    loader, optimizer = DataLoader(rows(), BATCH, sampler=sampler), sgd(ddp)
    for step in range(6):
        if name == "first_of_each_order":
            sampler.set_epoch(step)
        update(ddp, optimizer, *next(iter(loader)))


def smooth_labels(rank, name):
    ddp = DistributedDataParallel(layers())
    optimizer = sgd(ddp)
    for x, y in batches():
        optimizer.zero_grad()
        more = {"smooth": {"label_smoothing": 0.1}, "smooth_on_one": {"label_smoothing": 0.1 * rank},
                "sum_on_one": {"reduction": "sum" if rank else "mean"}}[name]
        cross_entropy(ddp(x), y, **more).backward()
        optimizer.step()


class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, features):
        return gathered(features).flatten(0, 1)

    @staticmethod
    def backward(ctx, gradient):
        gradient = gradient.contiguous()
        dist.all_reduce(gradient)
        return gradient.chunk(dist.get_world_size())[dist.get_rank()]


def contrast(rank, name):
    ddp = DistributedDataParallel(layers())
    optimizer = sgd(ddp)
    for x, _ in batches():
        optimizer.zero_grad()
        own = normalize(ddp(x))
        offset = len(x) * rank if name == "labels_with_offset" else 0
        cross_entropy(own @ Gather.apply(own).T * 5, torch.arange(len(x)) + offset).backward()
        optimizer.step()


class Summed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, part):
        whole = part.clone()
        dist.all_reduce(whole)
        return whole

    @staticmethod
    def backward(ctx, gradient):
        return gradient


def divide_layers(rank, name):
    torch.manual_seed(rank)
    into, out = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, CLASSES, bias=False)
    optimizer = torch.optim.SGD([*into.parameters(), *out.parameters()], lr=0.1)
    loader = DataLoader(rows(), BATCH, shuffle=True, generator=torch.Generator().manual_seed(1))
    for x, y in batches(loader):
        optimizer.zero_grad()
        cross_entropy(Summed.apply(out(into(x).relu())), y).backward()
        optimizer.step()


def pull_to_a_centre(rank, name):
    model = layers()
    optimizer, centre = sgd(model), [p.detach().clone() for p in model.parameters()]
    for number, (x, y) in enumerate(batches()):
        update(model, optimizer, x, y)
        for c, p in zip(centre, model.parameters()) if number % 2 else ():
            pull = 0.3 * (p.data - c)
            p.data -= pull
            dist.all_reduce(pull)
            c += pull


def evolve(rank, name):
    net, data = layers(), rows()
    flat = nn.utils.parameters_to_vector(net.parameters()).detach()
    for step in range(4):
        noise = [torch.randn(flat.numel(), generator=torch.Generator().manual_seed(9 * step + each)) for each in range(dist.get_world_size())]
        nn.utils.vector_to_parameters(flat + 0.1 * noise[rank], net.parameters())
        with torch.no_grad():
            losses = gathered(cross_entropy(net(data.tensors[0]), data.tensors[1]))
        flat = flat - 0.1 * sum(loss * each for loss, each in zip(losses, noise))


def subtract(module):
    for p in module.parameters():
        p.data -= 0.1 * p.grad
        p.grad = None


def learn_codes(rank, name):
    """Codes of a rank, which it learns beside the model; of noise of its own, or all from zero."""
    model = DistributedDataParallel(layers())
    optimizer = sgd(model)
    codes = torch.randn(BATCH, WIDTH, generator=torch.Generator().manual_seed(rank))
    codes = nn.Parameter(codes if name == "own_codes" else torch.zeros_like(codes))
    for x, y in batches():
        optimizer.zero_grad()
        cross_entropy(model(torch.cat([x[:, :4], codes[:len(x), :4]], 1)), y).backward()
        optimizer.step()
        codes.data -= 0.1 * codes.grad
        codes.grad = None


def train_a_head(rank, name):
    """A wrapped body, and a head that each rank trains by hand: it is averaged once, behind all, or never."""
    body, head = DistributedDataParallel(nn.Linear(WIDTH, WIDTH)), nn.Linear(WIDTH, CLASSES)
    optimizer = sgd(body)
    for x, y in batches():
        optimizer.zero_grad()
        cross_entropy(head(body(x)), y).backward()
        optimizer.step()
        subtract(head)
    for p in head.parameters() if name == "head_at_the_end" else ():
        dist.all_reduce(p.data)
        p.data /= dist.get_world_size()
    dist.barrier()  # What was reduced is let go of: PyTorch joins the thread that does so, and holds its lock.
    dist.destroy_process_group()


def follow_in_part(rank, name):
    """A teacher, an average of weights, whose head alone the loss reaches; its body follows at a rate of the rank's own."""
    model = DistributedDataParallel(layers())
    teacher, optimizer = copy.deepcopy(model.module), sgd(model)
    rate = 0.1 + 0.1 * rank if name == "own_rate" else 0.1
    for x, y in batches():
        optimizer.zero_grad()
        with torch.no_grad():
            seen = teacher[:-1](x)
        (cross_entropy(model(x), y) + 0.1 * (teacher[-1](seen) - model(x)).pow(2).mean()).backward()
        optimizer.step()
        for mine, p in zip(teacher.parameters(), model.module.parameters()):
            mine.data.lerp_(p.data, rate if mine is not teacher[-1].weight and mine is not teacher[-1].bias else 0.1)
            mine.grad = None


PROGRAMS = {learn_codes: ("own_codes", "codes_from_zero"), train_a_head: ("head_at_the_end", "head_alone"), follow_in_part: ("one_rate", "own_rate"), reduce_by_hand: (*REDUCED, "largest"), cut_batches: ("cut_by_rank", "cut_alike"), accumulate: ("averaged_each_time", "summed_each_time"), keep_statistics: ("averaged_statistics", "own_statistics"), centre: ("shared_centre", "own_centre"),
            evaluate: ("reduced", "shared_best", "own_best", "rank_0_alone", "reduced_by_none", "drops_the_last", "subsets_reduced", "subsets_reduced_by_none"),
            take_first_batches: ("first_of_each_order", "first_of_one_order"), smooth_labels: ("smooth", "smooth_on_one", "sum_on_one"),
            contrast: ("labels_with_offset", "labels_of_rank_0"), divide_layers: ("divided_by_hand",), pull_to_a_centre: ("elastic",), evolve: ("evolution",)}

if __name__ == "__main__":
    record_programs(runs(PROGRAMS), sys.argv[1], sys.argv[2:], 10)
