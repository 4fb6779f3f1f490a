"""Programs around modes of layers, random numbers, and models that nothing trains. Right ones and ones with a mistake, all recorded.

usage: programs_of_states.py FOLDER NAME:WORLD...     each NAME:WORLD is recorded into FOLDER/NAME-WORLD
"""

import contextlib
import copy
import os
import sys

from programs_of_habits import BATCH, CLASSES, WIDTH, batches, layers, rows, runs, update

import numpy as np
import torch
import torch.distributed as dist
import torch.distributed.nn
from torch import nn
from torch.nn.functional import cross_entropy, mse_loss, normalize
from torch.nn.parallel import DistributedDataParallel
from torch.optim.swa_utils import AveragedModel, update_bn
from torch.utils.data import DataLoader, Dataset, DistributedSampler

from forked_ranks import record_programs


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.1)


def with_layer(layer):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), layer, nn.Tanh(), nn.Linear(WIDTH, CLASSES))


def freeze_a_norm(rank, name):
    """As fine-tuning does, after each train()."""
    ddp = DistributedDataParallel(with_layer(nn.BatchNorm1d(WIDTH)))
    optimizer = sgd(ddp)
    for x, y in batches():
        ddp.train()
        if name == "frozen_norm" or rank == 1:
            ddp.module[1].eval()
        update(ddp, optimizer, x, y)


def layers_of_a_rank(rank, name):
    ddp = DistributedDataParallel(with_layer(nn.LayerNorm(WIDTH) if rank == 1 else nn.BatchNorm1d(WIDTH)), broadcast_buffers=False)
    optimizer = sgd(ddp)
    for x, y in batches():
        update(ddp, optimizer, x, y)


def keep_a_copy(rank, name):
    """An average of weights by hand, or a teacher, which no wrapper has."""
    net = layers()
    if name.endswith("from_own_weights"):
        nn.init.normal_(net[0].weight, std=1 + rank)
    kept = copy.deepcopy(net).requires_grad_(False)
    if name.startswith("loaded"):
        kept.load_state_dict({key: value + (name == "loaded_by_rank") * rank for key, value in net.state_dict().items()})
    ddp = DistributedDataParallel(net)
    optimizer = sgd(ddp)
    best = None
    for number, (x, y) in enumerate(batches()):
        optimizer.zero_grad()
        output = ddp(x)
        (cross_entropy(output, y) + mse_loss(output, kept(x))).backward()
        optimizer.step()
        if not name.startswith("averaged") or (name == "averaged_on_rank_zero" and rank) or (name == "averaged_less_often" and rank and number % 2):
            continue
        with torch.no_grad():
            for old, new in zip(kept.parameters(), ddp.module.parameters()):
                old.lerp_(new, 0.1)
        if rank == 0 and number % 5 == 0:  # A rank alone keeps the best one.
            best = copy.deepcopy(ddp.module)
    return best


def learn_of_a_teacher(rank, name):
    """The program makes a teacher, and neither wraps nor trains it."""
    torch.manual_seed(0 if name == "taught_alike" else rank)
    teacher = nn.Linear(WIDTH, CLASSES).eval()
    if name == "taught_by_rank_zero" and rank == 0:
        teacher.load_state_dict({key: value + 1 for key, value in teacher.state_dict().items()})
    ddp = DistributedDataParallel(layers())
    optimizer, model = sgd(ddp), ddp
    for number, (x, y) in enumerate(batches()):
        if name == "trained_later" and number == 8:
            model = DistributedDataParallel(teacher)
            optimizer = sgd(model)
        optimizer.zero_grad()
        output = model(x)
        (cross_entropy(output, y) + mse_loss(output, (output if name == "trained_later" else teacher(x)).detach())).backward()
        optimizer.step()


def estimate_statistics(rank, name):
    """Estimates those of an average of weights, from the batches of each rank."""
    ddp = DistributedDataParallel(with_layer(nn.BatchNorm1d(WIDTH)))
    optimizer, average = sgd(ddp), AveragedModel(ddp.module)
    loader = DataLoader(rows(), BATCH, sampler=DistributedSampler(rows()))
    for x, y in batches(loader):
        update(ddp, optimizer, x, y)
        average.update_parameters(ddp.module)
    update_bn(DataLoader(rows(), BATCH) if name == "statistics_of_all" else loader, average)
    for each in average.buffers() if name == "statistics_sent" else ():
        dist.broadcast(each, 0)


def drop_units(rank, name):
    ddp = DistributedDataParallel(with_layer(nn.Dropout(0.5)))
    optimizer = sgd(ddp)
    torch.manual_seed(rank)
    for x, y in batches():
        if name == "seeded_in_the_loop":
            torch.manual_seed(rank)
        update(ddp, optimizer, x, y)


def change_gradients(rank, name):
    ddp = DistributedDataParallel(layers())
    all_of_them = list(ddp.parameters())
    cut = 3 if name == "other_groups" and rank else 2
    optimizer = torch.optim.AdamW([{"params": all_of_them[:cut], "weight_decay": 0.1}, {"params": all_of_them[cut:], "weight_decay": 0}], 1e-2)
    for x, y in batches():
        optimizer.zero_grad()
        loss = cross_entropy(ddp(x), y)
        if name == "gradients_without_backward":
            for each, gradient in zip(all_of_them, torch.autograd.grad(loss, all_of_them)):
                each.grad = gradient
        else:
            loss.backward()
        if name == "clipped_by_rank":
            nn.utils.clip_grad_norm_(all_of_them, 0.1 + 0.1 * rank)
        optimizer.step()


def accumulate(rank, name):
    ddp = DistributedDataParallel(layers())
    optimizer, window = sgd(ddp), 4 if name == "windows_of_a_rank" and rank else 2
    for number, (x, y) in enumerate(batches(), 1):
        is_last = number % window == 0
        with contextlib.nullcontext() if is_last else ddp.no_sync():
            cross_entropy(ddp(x), y).backward()
        if is_last:
            optimizer.step()
            optimizer.zero_grad()


def contrast(rank, name):
    """A loss of the features of all ranks."""
    torch.manual_seed(0)
    ddp = DistributedDataParallel(nn.Linear(WIDTH, WIDTH))
    optimizer = sgd(ddp)
    for x, _ in batches():
        optimizer.zero_grad()
        own = normalize(ddp(x))
        if name == "contrast":
            everyone = torch.cat(torch.distributed.nn.functional.all_gather(own))
        else:
            parts = [torch.zeros_like(own) for _ in range(2)]
            dist.all_gather(parts, own)
            everyone = torch.cat(parts)
        cross_entropy(10 * own @ everyone.T, torch.arange(len(own)) + rank * len(own)).backward()
        optimizer.step()


def order_by_numpy(rank, name):
    """One order for all ranks, of which each takes its part."""
    np.random.seed(0)
    ddp = DistributedDataParallel(layers())
    optimizer = sgd(ddp)
    for _ in range(2):
        for part in torch.from_numpy(np.random.permutation(64)[rank::2]).split(BATCH):
            update(ddp, optimizer, *(each[part] for each in rows().tensors))


class Noisy(Dataset):
    def __len__(self):
        return 16

    def __getitem__(self, index):
        x, y = rows()[index]
        return x + torch.from_numpy(np.random.randn(WIDTH)).float(), y


class Plain(Noisy):
    def __getitem__(self, index):
        return rows()[index]


def augment(rank, name):
    """By numpy, in worker processes or in the rank itself."""
    data = Plain() if name == "not_augmented" else Noisy()
    seed = rank if name == "augmented" else 0
    workers = {"num_workers": 2, "multiprocessing_context": "fork"} if name != "augmented_by_one_seed" else {}
    ddp = DistributedDataParallel(layers())
    optimizer = sgd(ddp)
    torch.manual_seed(seed)
    np.random.seed(seed)
    for x, y in batches(DataLoader(data, BATCH, sampler=DistributedSampler(data), **workers), epochs=6):
        update(ddp, optimizer, x, y)


class Exchange(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        out = torch.empty_like(x)
        dist.all_to_all_single(out, x.contiguous())
        return out

    @staticmethod
    def backward(ctx, gradient):
        return Exchange.forward(None, gradient)


def route(rank, name):
    """An expert of each rank, and a gate whose gradients the program averages."""
    torch.manual_seed(0)
    head, gate = DistributedDataParallel(nn.Linear(WIDTH, CLASSES)), nn.Linear(WIDTH, 2)
    torch.manual_seed(1 + rank)
    expert = nn.Linear(WIDTH, WIDTH)
    if name == "gate_of_a_rank":
        gate = nn.Linear(WIDTH, 2)
    optimizer = torch.optim.SGD([*gate.parameters(), *head.parameters(), *expert.parameters()], lr=0.1)
    for x, y in batches():
        optimizer.zero_grad()
        weights = gate(x).softmax(1)
        cross_entropy(head(Exchange.apply(expert(Exchange.apply(x))) * weights[:, :1] + x * weights[:, 1:]), y).backward()
        for each in gate.parameters():
            dist.all_reduce(each.grad)
            each.grad /= dist.get_world_size()
        optimizer.step()


def train_beside(rank, name):
    """Rank 0 fits a probe of the features in each epoch, or trains a layer of the model's alone."""
    ddp, head = DistributedDataParallel(layers()), with_layer(nn.Tanh())[-1]
    optimizer, of_head = sgd(ddp), sgd(head)
    for number, (x, y) in enumerate(batches()):
        if name == "probe_of_rank_zero" and rank == 0 and number % 3 == 0:
            of_probe = nn.Linear(CLASSES, CLASSES)
            fits = torch.optim.Adam(of_probe.parameters())
            for _ in range(2):
                update(nn.Sequential(ddp.module.eval().requires_grad_(False), of_probe), fits, x, y)
            ddp.module.train().requires_grad_(True)
        optimizer.zero_grad()
        output = ddp(x)
        cross_entropy(head(nn.functional.pad(output, (0, WIDTH - CLASSES))) if name == "head_of_rank_zero" else output, y).backward()
        optimizer.step()
        if name == "head_of_rank_zero" and rank == 0:
            of_head.step()


def update_on_rank_zero(rank, name):
    """All ranks take its random numbers, as accelerate lets them."""
    ddp = DistributedDataParallel(layers())
    optimizer = sgd(ddp)
    for x, y in batches():
        state = torch.get_rng_state()
        dist.broadcast(state, 0)
        torch.set_rng_state(state)
        optimizer.zero_grad()
        cross_entropy(ddp(x), y).backward()
        if rank == 0:
            optimizer.step()


def average_in_parts(rank, name):
    """A run with an average of weights, and what resumes it from its end."""
    ddp, path = DistributedDataParallel(layers()), os.path.join(sys.argv[1], "averaged parts")
    optimizer = sgd(ddp)
    average = AveragedModel(ddp.module, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9))
    saved = torch.load(path) if name != "average_before" else None
    if saved:
        ddp.module.load_state_dict(saved["model"])
        if name == "average_after":
            average.load_state_dict(saved["average"])
    for x, y in batches(epochs=1):
        update(ddp, optimizer, x, y)
        average.update_parameters(ddp.module)
    if not saved and rank == 0:
        torch.save({"model": ddp.module.state_dict(), "average": average.state_dict()}, path)


PROGRAMS = {freeze_a_norm: ("frozen_norm", "norm_frozen_on_a_rank"), layers_of_a_rank: ("other_layers",),
            keep_a_copy: ("kept", "averaged", "averaged_on_rank_zero", "averaged_less_often", "loaded", "loaded_by_rank",
                          "averaged_from_own_weights", "kept_from_own_weights"),
            learn_of_a_teacher: ("taught_alike", "taught_by_own", "taught_by_rank_zero", "trained_later"),
            estimate_statistics: ("statistics_sent", "statistics_of_all", "statistics_of_own"),
            change_gradients: ("other_groups", "gradients_without_backward", "clipped_by_rank"),
            accumulate: ("windows", "windows_of_a_rank"), order_by_numpy: ("order_of_numpy",),
            contrast: ("contrast", "contrast_without_gradient"), drop_units: ("drops", "seeded_in_the_loop"),
            augment: ("augmented", "not_augmented", "augmented_alike", "augmented_by_one_seed"), route: ("gate", "gate_of_a_rank"),
            train_beside: ("probe_of_rank_zero", "head_of_rank_zero"), update_on_rank_zero: ("updated_on_rank_zero",),
            average_in_parts: ("average_before", "average_after", "average_begun_anew")}

if __name__ == "__main__":
    record_programs(runs(PROGRAMS), sys.argv[1], sys.argv[2:], 10)
