"""Training loops that a seed draws, right ones and ones with a planted mistake, all recorded.

usage: loops.py FOLDER [--plain] SEED:MISTAKE...     records FOLDER/SEED-MISTAKE; MISTAKE is "right" or a key of MISTAKES
       loops.py --list RIGHT EACH                    lists RIGHT right loops, and EACH=CLAIMS, so many loops of each mistake

With --plain nothing is recorded. Each rank prints a checksum of its parameters.

Everything of a loop follows from its seed (drawn_loops.py). Runs with PyTorch's Python. LibTorch is loaded once, and each rank is a fork.
"""

import contextlib
import copy
import datetime
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(HERE)), "recorder", "python"))
os.environ["OMP_NUM_THREADS"] = "1"

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import (BatchSampler, ConcatDataset, DataLoader, DistributedSampler, IterableDataset, Subset, TensorDataset,
                              random_split)

import lockstep_recorder
from drawn_loops import draw, listed
from forked_ranks import load_all, run_forked

CLASSES, WIDTH = 3, 6


class Words(nn.Module):
    """A bag of words; with tied weights the table is the output's too."""
    def __init__(self, tied=False):
        super().__init__()
        self.words, self.drop = nn.Embedding(CLASSES if tied else 12, WIDTH), nn.Dropout(0.2)
        self.out = nn.Linear(WIDTH, CLASSES)
        if tied:
            self.out.weight = self.words.weight

    def forward(self, x):
        rows = self.words.weight.shape[0]
        return self.out(self.drop(self.words((x.abs() * 10).long() % rows).mean(1)))


def model_of(name):
    if name == "convolutions":
        return nn.Sequential(nn.Unflatten(1, (1, WIDTH)), nn.Conv1d(1, 3, 3), nn.BatchNorm1d(3), nn.GELU(), nn.Flatten(), nn.Linear(12, CLASSES))
    if name in ("words", "tied"):
        return Words(name == "tied")
    model = nn.Sequential(nn.Linear(WIDTH, 8), nn.Tanh(), nn.Linear(8, CLASSES))
    if name == "frozen":
        model[0].requires_grad_(False)
    return model


class Stream(IterableDataset):
    """Samples without a length, dealt to ranks and their workers by their numbers."""
    def __init__(self, tensors, rank, world):
        self.tensors, self.rank, self.world = tensors, rank, world

    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        first, step = (self.rank, self.world) if info is None else (self.rank + self.world * info.id, self.world * info.num_workers)
        for number in range(first, len(self.tensors), step):
            yield self.tensors[number]


def samples_of(loop, count, rank, mistake):
    generator = torch.Generator().manual_seed(5)
    inputs = torch.randn(2 * count, WIDTH, generator=generator)
    whole = TensorDataset(inputs, torch.randint(0, CLASSES, (2 * count,), generator=generator))
    if loop.dataset == "split":
        seed = rank if mistake == "split_by_own_seed" else 9
        return random_split(whole, [count, count], torch.Generator().manual_seed(seed))[0]
    if loop.dataset == "concatenated":
        return ConcatDataset([Subset(whole, range(count // 2)), Subset(whole, range(count // 2, count))])
    return Subset(whole, range(count)) if loop.dataset == "subset" else TensorDataset(*whole[:count])


class Feed:
    """What a rank trains on, epoch by epoch."""
    def __init__(self, loop, data, rank, mistake):
        self.loop, self.data, self.rank, self.mistake = loop, data, rank, mistake
        self.sampler = self.loader = None

    def make(self):
        loop, world = self.loop, self.loop.world
        rank = 0 if self.mistake in ("rank_zero_for_all", "one_stream") else self.rank
        workers = {"num_workers": loop.workers, "persistent_workers": loop.persistent and loop.workers > 0}
        if loop.fed == "stream":
            return DataLoader(Stream(self.data, rank, world), loop.batch, **workers)
        if self.mistake in ("sampler_forgotten", "shuffled_by_all"):
            return DataLoader(self.data, loop.batch, shuffle=self.mistake == "shuffled_by_all", **workers)
        seed = self.rank if self.mistake == "sampler_seeds_differ" else 0
        self.sampler = DistributedSampler(self.data, world, rank, loop.shuffle, seed)
        if loop.fed == "batch_sampler":
            return DataLoader(self.data, batch_sampler=BatchSampler(self.sampler, loop.batch, False), **workers)
        return DataLoader(self.data, loop.batch, sampler=self.sampler, **workers)

    def epoch(self, number):
        if self.loop.fed == "by_hand":
            rank = 0 if self.mistake == "one_stream" else self.rank
            order = torch.randperm(len(self.data), generator=torch.Generator().manual_seed(number)).tolist()[rank::self.loop.world]
            for begin in range(0, len(order), self.loop.batch):
                rows = [self.data[each] for each in order[begin:begin + self.loop.batch]]
                yield torch.stack([row[0] for row in rows]), torch.stack([row[1] for row in rows])
            return
        if self.loader is None or self.loop.made_anew:
            self.loader = self.make()
        if self.sampler is not None and self.mistake != "epoch_forgotten":
            self.sampler.set_epoch(number)
        yield from self.loader


def optimizer_of(loop, model, rate):
    parameters = [each for each in model.parameters() if each.requires_grad]
    if loop.optimizer == "adam":
        return torch.optim.Adam(parameters, lr=rate)
    if loop.optimizer == "adamw_groups":
        flat = [each for each in parameters if each.dim() < 2]
        return torch.optim.AdamW([{"params": [each for each in parameters if each.dim() > 1]}, {"params": flat, "weight_decay": 0.0}], lr=rate)
    return torch.optim.SGD(parameters, lr=rate, momentum=0.9 if loop.optimizer == "momentum" else 0)


def evaluate(loop, module, data, rank, mistake):
    if loop.evaluation == "none" or (loop.evaluation == "whole_on_rank_zero" and rank > 0):
        return
    module.eval()
    padded = Subset(data, range(len(data) - 1))
    if loop.evaluation == "padded_alone":
        loader = DataLoader(padded, loop.batch, sampler=DistributedSampler(padded, shuffle=False))
    elif loop.evaluation == "counted":
        loader = DataLoader(Subset(data, range(rank, len(data), loop.world)), loop.batch)
    else:
        loader = DataLoader(data, loop.batch)
    right = torch.zeros(2)
    with torch.no_grad():
        for x, y in loader:
            right += torch.tensor([(module(x.to(next(module.parameters()).dtype)).argmax(1) == y).sum(), len(y)])
    if loop.evaluation == "counted" or mistake == "padded_and_summed":
        dist.all_reduce(right)
    module.train()


def train(loop, rank, mistake, folder):
    torch.manual_seed(3)
    data = samples_of(loop, loop.world * loop.batch * loop.batches, rank, mistake)
    dtype = torch.double if loop.precision == "double" else torch.float32
    module = model_of(loop.model).to(dtype)
    ddp = module if mistake == "not_wrapped" else DistributedDataParallel(module)
    torch.manual_seed(100 + rank)  # for dropout
    if mistake == "loaded_on_rank_zero" and rank == 0:
        module.load_state_dict(model_of(loop.model).state_dict())
    rate = 1e30 if mistake == "diverges" else 0.1 if mistake == "rate_differs" and rank == 1 else 0.05
    optimizer = optimizer_of(loop, ddp, rate)
    if mistake == "layer_replaced":
        module[2] = nn.Linear(8, CLASSES)
        ddp = DistributedDataParallel(module)
    steps = loop.epochs * loop.batches // loop.accumulation
    schedule = {"none": lambda: None, "epoch": lambda: torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5),
                "step": lambda: torch.optim.lr_scheduler.LinearLR(optimizer, 0.5, total_iters=steps)}[loop.schedule]()
    scaler = torch.amp.GradScaler("cpu", enabled=loop.precision == "scaler", init_scale=256.0)
    autocast = torch.autocast("cpu", torch.bfloat16) if loop.precision == "autocast" else contextlib.nullcontext()
    feed = Feed(loop, data, rank, mistake)
    average = copy.deepcopy(module) if loop.ema else None
    if loop.peek:
        with torch.no_grad():
            for x, _ in feed.epoch(0):
                module(x.to(dtype))
                break
    update = 0
    for epoch in range(loop.epochs):
        optimizer.zero_grad()
        for number, (x, y) in enumerate(feed.epoch(epoch)):
            last = number % loop.accumulation == loop.accumulation - 1
            local = (loop.no_sync and not last) or mistake == "never_synchronised"
            forward = module if mistake == "bare_forward" else ddp
            with ddp.no_sync() if local and mistake != "not_wrapped" else contextlib.nullcontext():
                with autocast:
                    loss = cross_entropy(forward(x.to(dtype)), y) / (loop.accumulation if loop.divided else 1)
                scaler.scale(loss).backward()
            if not last:
                continue
            update += 1
            scaler.unscale_(optimizer)
            if loop.clip or (mistake == "clipped_on_one_rank" and rank == 0):
                nn.utils.clip_grad_norm_(module.parameters(), 1e-3 if mistake == "clipped_on_one_rank" and rank == 0 else 1.0)
            if not (mistake == "skips_an_update" and rank == 1 and update == 2):
                scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            if mistake == "noise_on_one_rank" and rank == 1 and update == 1:  # no checkpoint takes that back
                with torch.no_grad():
                    next(each for each in module.parameters() if each.requires_grad).view(-1)[0] += 0.125
            if mistake == "logs_on_rank_zero" and rank == 0 and update == 2:
                dist.all_reduce(loss.detach().clone())
            if average is not None:
                with torch.no_grad():
                    for old, new in zip(average.parameters(), module.parameters()):
                        old.lerp_(new, 0.1)
            if loop.schedule == "step":
                schedule.step()
            if mistake == "stops_early" and rank == 1 and update == 2:
                return module
        if loop.schedule == "epoch" and not (mistake == "schedule_on_rank_zero" and rank > 0):
            schedule.step()
        evaluate(loop, module, data, rank, mistake)
        if loop.checkpoint and epoch == 0:
            path = os.path.join(folder, "checkpoint")
            if rank == 0:
                torch.save({"model": module.state_dict(), "optimizer": optimizer.state_dict()}, path)
            dist.barrier()
            saved = torch.load(path)
            module.load_state_dict(saved["model"])
            optimizer.load_state_dict(saved["optimizer"])
    return module


def rank_of_loop(folder, seed, mistake, loop, rank, plain):
    name = os.path.join(folder, f"{seed}-{mistake}")
    os.makedirs(name + ".files", exist_ok=True)
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(loop.world))
    if not plain:
        lockstep_recorder.start(name, "loop.py")
    dist.init_process_group("gloo", init_method="file://" + os.path.join(name + ".files", "store"), rank=rank, world_size=loop.world,
                            timeout=datetime.timedelta(seconds=10))
    try:
        module = train(loop, rank, mistake, name + ".files")
        result = f"{sum(each.double().sum().item() for each in module.parameters()):.17g}"
    except RuntimeError as error:  # A rank that is left alone by a planted mistake.
        result = str(error)[:200]
    os.write(1, f"{seed}-{mistake} rank {rank}: {result}\n".encode())  # in one piece, beside what other ranks print


def main(folder, *wanted):
    if folder == "--list":
        print(*listed(*map(int, wanted)), sep="\n")
        return
    load_all()
    plain = "--plain" in wanted
    for each in wanted:
        if each != "--plain":
            seed, mistake = each.split(":")
            loop = draw(int(seed))
            run_forked(loop.world, lambda rank: rank_of_loop(folder, seed, mistake, loop, rank, plain))


if __name__ == "__main__":
    main(*sys.argv[1:])
