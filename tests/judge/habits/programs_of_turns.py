"""Programs whose models take turns, or whose forwards get other things than a batch: noise, micro-batches, what a drop_last left. Right ones
and ones with a mistake, all recorded.

usage: programs_of_turns.py FOLDER NAME:WORLD...     each NAME:WORLD is recorded into FOLDER/NAME-WORLD
"""

import contextlib
import sys

from programs_of_averages import sgd
from programs_of_habits import BATCH, WIDTH, batches, layers, rows, runs, update
from programs_of_ways import average_by_hand

import numpy
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import softplus
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, Subset

from forked_ranks import record_programs

NOISE = 2


def own(model, is_own):
    """A context in which the ranks keep the gradients of a wrapped model."""
    return model.no_sync() if is_own and isinstance(model, DistributedDataParallel) else contextlib.nullcontext()


def take_turns(rank, name):
    """Two models, of which each requires gradients in its own turn alone, and none any more as its optimizer updates it."""
    is_by_hand = "by_hand" in name
    torch.manual_seed(0)
    nets = [nn.Sequential(nn.Flatten(), nn.Linear(NOISE * NOISE, WIDTH)), nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 1))]
    generator, critic = nets if is_by_hand else map(DistributedDataParallel, nets)
    optimizers = [torch.optim.Adam(each.parameters(), lr=0.01) for each in nets]
    torch.manual_seed(1 + rank)
    for net in nets:
        net.requires_grad_(False)
    loader = DataLoader(rows(), BATCH, shuffle=True, generator=torch.Generator().manual_seed(1)) if name == "turns_on_one_batch" else None
    for real, _ in batches(loader):
        for number, net in enumerate(nets):
            optimizers[number].zero_grad(set_to_none=True)
            net.requires_grad_(True)
            is_kept = name == "turns_kept_in_no_sync" and number == 1
            with own(generator, number == 1), own(critic, number == 0 or is_kept):
                fake = generator(torch.randn(BATCH, NOISE, NOISE))
                loss = softplus(-critic(fake)).mean() if number == 0 else softplus(torch.cat([critic(fake), -critic(real)])).mean()
                loss.backward()
            net.requires_grad_(False)
            if is_by_hand and not (name == "turns_by_hand_unsent" and number == 1):
                average_by_hand(net)
            optimizers[number].step()


def warm_up(rank, name):
    """The rate is a scalar of numpy, as numpy.interp gives it."""
    ddp = DistributedDataParallel(layers())
    optimizer = sgd(ddp)
    for step, (x, y) in enumerate(batches()):
        optimizer.param_groups[0]["lr"] = numpy.interp(step, [0, 8], [0.0, 0.1 * (1 + rank) if name == "numpy_rate_of_a_rank" else 0.1])
        update(ddp, optimizer, x, y)


def take_micro_batches(rank, name):
    ddp, half = DistributedDataParallel(layers()), BATCH // 2
    optimizer = sgd(ddp)
    shuffled = DataLoader(rows(), BATCH, shuffle=True, generator=torch.Generator().manual_seed(rank))
    for step, (x, y) in enumerate(batches(shuffled if "of_own_orders" in name else None)):
        optimizer.zero_grad()
        if step == 2 and name.endswith("beside_evaluations"):
            with torch.no_grad():
                any(ddp.module(x).isnan().any() for x, _ in DataLoader(rows(16, seed=2), BATCH))
        for begin in range(0, BATCH, half):
            with own(ddp, begin + half < BATCH):
                nn.functional.cross_entropy(ddp(x[begin:begin + half]), y[begin:begin + half]).div(2).backward()
        optimizer.step()


class Timed(nn.Module):
    """Its forward gets a number beside a batch, or beside less of each sample."""

    def __init__(self, width):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(width, WIDTH), layers())

    def forward(self, x, time):
        return self.net(x + time)


def take_shares(rank, name):
    """Every rank is handed the same batches."""
    width = WIDTH - 1 if name == "shares_cropped" else WIDTH
    ddp = DistributedDataParallel(Timed(width))
    optimizer = sgd(ddp)
    for x, y in batches(DataLoader(rows(), BATCH, shuffle=True, generator=torch.Generator().manual_seed(1))):
        if name == "shares_cropped":
            x, y = x[rank::2, :width], y[rank::2]
        optimizer.zero_grad()
        nn.functional.cross_entropy(ddp(x, torch.rand(1)), y).backward()
        optimizer.step()


def penalise(rank, name):
    """Samples that all ranks make alike, and a penalty now and then whose backward runs through no wrapper."""
    ddp, draw = DistributedDataParallel(layers()), torch.Generator().manual_seed(1 + (rank if name == "penalised" else 0))
    optimizer = sgd(ddp)
    for step in range(8):
        x, y = torch.randn(BATCH, WIDTH, generator=draw), torch.randint(3, (BATCH,), generator=draw)
        optimizer.zero_grad()
        nn.functional.cross_entropy(ddp(x), y).backward()
        if step % 4 == 3:
            ddp.module(torch.ones(1, WIDTH)).pow(2).mean().mul(0.01).backward()
        optimizer.step()


class Gathered(torch.autograd.Function):
    """Gathers what all ranks have. Its backward reduces what their losses say of each part."""

    @staticmethod
    def forward(_, x):
        parts = [torch.zeros_like(x) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, x)
        return tuple(parts)

    @staticmethod
    def backward(_, *gradients):
        whole = torch.stack(gradients)
        dist.all_reduce(whole)
        return whole[dist.get_rank()]


def gather_features(rank, name):
    model = nn.Linear(WIDTH, 2 * WIDTH)
    optimizer = sgd(model)
    for x, _ in batches():
        optimizer.zero_grad()
        features = torch.cat(Gathered.apply(model(x)))
        nn.functional.cross_entropy(features @ features.T, torch.arange(len(features))).backward()
        for p in model.parameters():
            dist.all_reduce(p.grad)
            p.grad.div_(1 if name == "gathered_and_summed" else dist.get_world_size())
        optimizer.step()


class DealtBatches:
    """Deals the batches of one order by turns, and the first of them once more where a rank would get fewer."""

    def __init__(self, samples, seed=0):
        self.samples, self.draw = samples, torch.Generator().manual_seed(seed)

    def __len__(self):
        return 8

    def __iter__(self):
        order, world = torch.randperm(self.samples, generator=self.draw).tolist(), dist.get_world_size()
        whole = [order[begin:begin + BATCH] for begin in range(0, self.samples, BATCH)]
        yield from (whole + whole[:-len(whole) % world])[dist.get_rank()::world]


class EndlessBatches(DealtBatches):
    def __iter__(self):
        while True:
            yield from super().__iter__()


def deal_batches(rank, name):
    ddp = DistributedDataParallel(layers())
    optimizer = sgd(ddp)
    for x, y in batches(DataLoader(rows(60), batch_sampler=DealtBatches(60, rank if name == "dealt_of_own_orders" else 0))):
        update(ddp, optimizer, x, y)


def take_the_rest(rank, name):
    """Each rank evaluates a part of as many samples as the others, and all of them the rest."""
    held_out = rows(31, seed=2)
    sampler = DistributedSampler(held_out, shuffle=False, drop_last=True)
    rest = Subset(held_out, range(len(sampler) * dist.get_world_size(), len(held_out)))
    ddp = DistributedDataParallel(layers())
    optimizer = sgd(ddp)
    for x, y in batches():
        update(ddp, optimizer, x, y)
    ddp.eval()
    with torch.no_grad():
        right = sum(ddp(x).argmax(1).eq(y).sum() for x, y in DataLoader(held_out, BATCH, sampler=sampler))
        dist.all_reduce(right)
        right += sum(ddp(x).argmax(1).eq(y).sum() for x, y in DataLoader(rest, BATCH))


class Correlated(nn.Module):
    """Its loss is of what all ranks have, and so the same on all."""

    def __init__(self):
        super().__init__()
        self.net = layers()

    def forward(self, x):
        out = self.net(x)
        correlation = out.T @ out / len(x) / dist.get_world_size()
        dist.all_reduce(correlation)
        return correlation.sub_(torch.eye(len(correlation))).pow_(2).sum()


def correlate(rank, name):
    ddp = DistributedDataParallel(Correlated())
    optimizer = sgd(ddp, 0.01)
    for x, _ in batches():
        optimizer.zero_grad()
        (ddp.module if name == "one_loss_of_a_bare_forward" else ddp)(x).backward()
        optimizer.step()


def run_bare(rank, name):
    """Forwards of the module, past its wrapper, whose gradients the program averages itself, or a backward of the wrapper adds to and averages."""
    ddp = DistributedDataParallel(layers())
    optimizer = sgd(ddp)
    for step, (x, y) in enumerate(batches()):
        optimizer.zero_grad()
        if name == "bare_behind_the_wrapper":
            nn.functional.cross_entropy(ddp(x), y).backward()
        nn.functional.cross_entropy(ddp.module(x), y).backward()
        if name == "bare_before_the_wrapper":
            nn.functional.cross_entropy(ddp(x), y).backward()
        elif name != "bare_behind_the_wrapper" and (step % 2 == 0 or name != "bare_averaged_now_and_then"):
            for p in list(ddp.parameters())[:2 if name == "bare_averaged_in_part" else None]:
                dist.all_reduce(p.grad)
                p.grad /= 1 if name == "bare_summed" else dist.get_world_size()
        optimizer.step()


def train_within(rank, name):
    """Each rank trains a perturbation of its batch between updates of the model, or a head that should be the same on all."""
    ddp, head = DistributedDataParallel(layers()), nn.Linear(3, 3)
    optimizer = sgd(ddp)
    for x, y in batches():
        if name == "perturbed":
            own = [torch.zeros_like(x, requires_grad=True)]
        else:
            own = list(head.parameters())
        with torch.no_grad():
            for p in own if name in ("heads_of_rank_0", "heads_clamped", "heads_anew") else ():
                if name == "heads_of_rank_0":
                    dist.broadcast(p, 0)
                elif name == "heads_clamped":
                    p.clamp_(-0.1, 0.1)
                else:
                    p.fill_(0.1)
        within = torch.optim.SGD(own, 0.1)
        for _ in range(3):
            within.zero_grad()
            score = ddp.module(x + own[0]) if name == "perturbed" else head(ddp.module(x).detach())
            nn.functional.cross_entropy(score, y).backward()
            within.step()
        update(ddp, optimizer, (x + own[0]).detach() if name == "perturbed" else x, y)


def take_endlessly(rank, name):
    """All batches are of one pass, and the wrapper is gone before the module."""
    net = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH), layers())
    ddp = DistributedDataParallel(net, broadcast_buffers=name == "endless")
    optimizer, endless = sgd(ddp), iter(DataLoader(rows(), batch_sampler=EndlessBatches(64)))
    for _ in range(8):
        update(ddp, optimizer, *next(endless))
    del ddp
    dist.destroy_process_group()


PROGRAMS = {take_endlessly: ("endless", "endless_statistics"), take_turns: ("turns", "turns_by_hand", "turns_kept_in_no_sync", "turns_by_hand_unsent", "turns_on_one_batch"),
            warm_up: ("numpy_rate", "numpy_rate_of_a_rank"), take_micro_batches: ("micro_batches", "micro_batches_of_own_orders", "micro_batches_of_own_orders_beside_evaluations"),
            take_shares: ("shares_cropped", "whole_beside_a_number"), penalise: ("penalised", "penalised_alike"),
            gather_features: ("gathered", "gathered_and_summed"),
            deal_batches: ("dealt", "dealt_of_own_orders"), take_the_rest: ("rest_of_all",), correlate: ("one_loss", "one_loss_of_a_bare_forward"),
            train_within: ("perturbed", "heads_anew", "heads_kept", "heads_clamped", "heads_of_rank_0"),
            run_bare: ("bare_averaged", "bare_before_the_wrapper", "bare_behind_the_wrapper", "bare_averaged_in_part", "bare_averaged_now_and_then", "bare_summed")}

if __name__ == "__main__":
    record_programs(runs(PROGRAMS), sys.argv[1], sys.argv[2:], 10)
