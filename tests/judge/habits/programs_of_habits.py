"""Programs around what a training keeps beside its parameters: frozen ones, averages, parts, epochs, checkpoints. Right ones and ones with
a mistake, all recorded.

usage: programs_of_habits.py FOLDER NAME:WORLD...     each NAME:WORLD is recorded into FOLDER/NAME-WORLD
"""

import copy
import os
import sys

JUDGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(os.path.dirname(os.path.dirname(JUDGE)), "recorder", "python"), JUDGE]
os.environ["OMP_NUM_THREADS"] = "1"

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.functional import cross_entropy, mse_loss, softplus
from torch.nn.parallel import DistributedDataParallel
from torch.optim.swa_utils import AveragedModel
from torch.utils.data import DataLoader, DistributedSampler, IterableDataset, Sampler, TensorDataset

import lockstep_recorder
from forked_ranks import record_programs

SAMPLES, WIDTH, CLASSES, BATCH, EPOCHS = 64, 8, 3, 4, 2


def rows(samples=SAMPLES, seed=1):
    draw = torch.Generator().manual_seed(seed)
    return TensorDataset(torch.randn(samples, WIDTH, generator=draw), torch.randint(0, CLASSES, (samples,), generator=draw))


def layers():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, CLASSES))


def batches(loader=None, epochs=EPOCHS):
    loader = loader or DataLoader(rows(), BATCH, sampler=DistributedSampler(rows()))
    for epoch in range(epochs):
        if isinstance(loader.sampler, DistributedSampler):
            loader.sampler.set_epoch(epoch)
        yield from loader


def update(model, optimizer, x, y, change=lambda: None):
    optimizer.zero_grad()
    cross_entropy(model(x), y).backward()
    change()
    optimizer.step()


def train_a_head(rank, name):
    """Upon a layer that is frozen, whose weights come from a file once the model is wrapped."""
    net = layers()
    net[0].requires_grad_(False)
    ddp = DistributedDataParallel(net)
    optimizer = torch.optim.SGD([each for each in net.parameters() if each.requires_grad], lr=0.1)
    if name == "head" or rank == 0:
        with torch.no_grad():
            net[0].weight.fill_(0.5)
    for x, y in batches():
        update(ddp, optimizer, x, y)
        if name == "head" and rank == 0:  # Its adapter is merged for an evaluation, and parted again.
            kept = net[0].weight.clone()
            with torch.no_grad():
                net[0].weight.add_(1)
                net(x)
                net[0].weight.copy_(kept)


def average_weights(rank, name):
    ddp = DistributedDataParallel(layers())
    average, optimizer = AveragedModel(ddp.module), torch.optim.SGD(ddp.parameters(), lr=0.1)
    for number, (x, y) in enumerate(batches()):
        update(ddp, optimizer, x, y)
        if name == "average" or rank == 0 or number % 2 == 0:
            average.update_parameters(ddp.module)


def learn_from_a_teacher(rank, name):
    """The teacher is an average that the program keeps itself, and has the recorder watch."""
    ddp = DistributedDataParallel(layers())
    teacher, optimizer = copy.deepcopy(ddp.module).requires_grad_(False), torch.optim.SGD(ddp.parameters(), lr=0.1)
    lockstep_recorder.watch(teacher)
    for x, _ in batches():
        optimizer.zero_grad()
        mse_loss(ddp(x), teacher(x)).backward()
        optimizer.step()
        if name == "teacher" or rank == 0:
            with torch.no_grad():
                for old, new in zip(teacher.parameters(), ddp.module.parameters()):
                    old.lerp_(new + 0.01, 0.1)


def clip_parts(rank, name):
    ddp = DistributedDataParallel(layers())
    optimizer = ZeroRedundancyOptimizer(ddp.parameters(), torch.optim.Adam, lr=1e-2)

    def clip():
        own = [each for group in optimizer.optim.param_groups for each in group["params"]]
        if name == "clipped_whole":
            nn.utils.clip_grad_norm_(ddp.parameters(), 0.1)
        elif name == "clipped_by_the_norm_of_all":
            norm = nn.utils.get_total_norm([each.grad for each in ddp.parameters()])
            nn.utils.clip_grads_with_norm_(own, 0.1, norm)
        else:
            nn.utils.clip_grad_norm_(own, 0.1)
    for x, y in batches():
        update(ddp, optimizer, x, y, clip)


def train_a_gan(rank, name):
    """The generator learns through the discriminator itself, since that one's gradients are not wanted."""
    maker = DistributedDataParallel(nn.Sequential(nn.Linear(4, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH)))
    judge = DistributedDataParallel(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 1)))
    makes, judges = (torch.optim.Adam(each.parameters(), lr=1e-3) for each in (maker, judge))
    torch.manual_seed(rank)
    for x, _ in batches():
        made = maker(torch.randn(len(x), 4))
        if name == "gan":
            judges.zero_grad()
        softplus(judge(torch.cat([made.detach(), -x]))).mean().backward()
        judges.step()
        if name != "gan":
            judges.zero_grad()  # Before the generator's step, which leaves it some.
        makes.zero_grad()
        softplus(-judge.module(made)).mean().backward()
        makes.step()


class OwnOrder(Sampler):
    def __init__(self, name, rank):
        super().__init__()
        self.name, self.rank, self.epoch = name, rank, 0

    def __len__(self):
        return SAMPLES // 2

    def __iter__(self):
        order = list(range(SAMPLES))
        if self.name != "own_order_sorted":
            order = torch.randperm(SAMPLES, generator=torch.Generator().manual_seed(self.epoch)).tolist()
        return iter(order[self.rank::2])


class Growing(OwnOrder):
    """A part of the dataset that grows with the epochs, as a curriculum's does."""

    def __len__(self):
        return SAMPLES * (self.epoch + 1) // 4

    def __iter__(self):
        seed = self.epoch + (self.rank if self.name == "growing_own_orders" else 0)
        order = torch.randperm(2 * len(self), generator=torch.Generator().manual_seed(seed)).tolist()
        return iter(order[self.rank::2])


class Endless(Sampler):
    def __init__(self, name, rank):
        super().__init__()
        self.name, self.rank = name, rank

    def __iter__(self):
        draw = torch.Generator().manual_seed(0 if self.name == "endless" else self.rank)
        while True:
            order = torch.randperm(SAMPLES, generator=draw).tolist()
            yield from order if self.name == "endless_whole_orders" else order[self.rank::2]


class Stream(IterableDataset):
    def __init__(self, rank):
        super().__init__()
        self.rank, self.epoch = rank, 0

    def __iter__(self):
        for index in torch.randperm(SAMPLES, generator=torch.Generator().manual_seed(self.epoch)).tolist()[self.rank::2]:
            yield rows()[index]


def draw_by_itself(rank, name):
    ddp = DistributedDataParallel(layers())
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    sampler = (Endless if name.startswith("endless") else Growing if name.startswith("growing") else OwnOrder)(name, rank)
    stream = Stream(rank)
    loader = DataLoader(stream, BATCH) if name.startswith("stream") else DataLoader(rows(), BATCH, sampler=sampler)
    for epoch in range(EPOCHS):
        if name in ("own_order", "stream", "stream_remade", "own_order_beside_evaluations", "growing_order", "growing_own_orders"):
            sampler.epoch = stream.epoch = epoch
        if name.startswith("stream_remade"):
            loader = DataLoader(stream, BATCH)
        for number, (x, y) in enumerate(loader):
            update(ddp, optimizer, x, y)
            if number == 39:
                return
        if "beside_evaluations" in name:
            for x, _ in DataLoader(rows(32, seed=2), BATCH, sampler=list(range(32))[rank::2]):
                dist.all_reduce(ddp.module(x).detach().sum())


def evaluate_in_parts(rank, name):
    """Each rank evaluates a part that the program lists itself."""
    ddp, data = DistributedDataParallel(layers()), rows(33, seed=2)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    for x, y in batches():
        update(ddp, optimizer, x, y)
    part, hits = list(range(33))[rank::2], torch.zeros(2)
    if name != "parts":
        part += [0] * (17 - len(part))

    def gather(right):
        of_all = [torch.zeros_like(right) for _ in range(2)]
        dist.all_gather(of_all, right)
        return torch.cat(of_all)

    def gather_for_metrics(right, left):
        return gather(right)[:left]  # as accelerate does
    seen = []
    for x, y in DataLoader(data, BATCH, sampler=part):
        right = (ddp.module(x).argmax(1) == y).long()
        hits += torch.tensor([right.sum(), len(y)])
        if name.startswith("gathered"):
            seen += gather(right) if name == "gathered_with_padding" else gather_for_metrics(right, 33 - len(seen))
    if not seen:
        dist.all_reduce(hits)


def add_noise(rank, name):
    ddp = DistributedDataParallel(layers())
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    torch.manual_seed(0 if name == "same_noise" else rank)
    for x, y in batches():
        update(ddp, optimizer, x + 0.1 * torch.randn_like(x), y)


def replace_a_layer(rank, name):
    ddp = DistributedDataParallel(layers())
    ddp.module[4] = nn.Linear(WIDTH, CLASSES)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    for x, y in batches():
        update(ddp, optimizer, x, y)


def train_in_parts(rank, name):
    """Two epochs, and a checkpoint; what resumes it makes two more."""
    ddp, path = DistributedDataParallel(layers()), os.path.join(sys.argv[1], "parts")
    optimizer = torch.optim.AdamW(ddp.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 6, 0.5)
    world, begin = dist.get_world_size(), 0 if name == "first_part" else 2
    if begin:
        saved = torch.load(path)
        ddp.module.load_state_dict(saved["model"])
        if name != "without_optimizer":
            optimizer.load_state_dict(saved["optimizer"])
        if name == "without_moments_of_a_layer":
            for each in ddp.module[0].parameters():
                del optimizer.state[each]
        if name not in ("without_optimizer", "without_schedule"):
            schedule.load_state_dict(saved["schedule"])
    sampler = DistributedSampler(rows())
    for epoch in range(begin, 4):
        sampler.set_epoch(epoch - (begin if name == "epochs_from_zero" else 0))
        for x, y in DataLoader(rows(), 2 * BATCH // world, sampler=sampler):
            update(ddp, optimizer, x, y)
            schedule.step()
        if not begin and epoch == 1 and rank == 0:
            torch.save({"model": ddp.module.state_dict(), "optimizer": optimizer.state_dict(), "schedule": schedule.state_dict()}, path)


PROGRAMS = {train_a_head: ("head", "head_loaded_on_rank_zero"), average_weights: ("average", "average_of_other_steps"),
            learn_from_a_teacher: ("teacher", "teacher_of_rank_zero"),
            clip_parts: ("clipped_whole", "clipped_by_the_norm_of_all", "clipped_by_part"), train_a_gan: ("gan", "gan_with_a_leak"),
            draw_by_itself: ("own_order", "own_order_sorted", "own_order_of_one_epoch", "endless", "endless_whole_orders",
                             "endless_parts_of_own_orders", "stream", "stream_of_one_epoch", "stream_remade", "stream_remade_of_one_epoch", "own_order_beside_evaluations",
                             "own_order_of_one_epoch_beside_evaluations", "growing_order", "growing_own_orders"),
            evaluate_in_parts: ("parts", "padded_by_hand", "gathered_with_padding", "gathered_for_metrics"), add_noise: ("noise", "same_noise"), replace_a_layer: ("replaced",),
            train_in_parts: ("first_part", "second_part", "without_optimizer", "without_moments_of_a_layer", "without_schedule",
                             "epochs_from_zero")}


def runs(programs):
    """Returns a function that runs a rank of the program with a name."""
    def run(rank, name):
        program = next(each for each, names in programs.items() if name in names)
        try:
            program(rank, name)
        except RuntimeError as error:
            lockstep_recorder._launch.record_exception(error)
    return run


if __name__ == "__main__":
    record_programs(runs(PROGRAMS), sys.argv[1], sys.argv[2:], 10)
