"""Training programs in the manner of the field's examples, right ones and ones with a usual mistake, all recorded.

usage: programs.py FOLDER NAME:WORLD...     each NAME:WORLD is recorded into FOLDER/NAME-WORLD

Runs with PyTorch's Python. LibTorch is loaded once, and each rank is a fork.
"""

import contextlib
import datetime
import os
import signal
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(HERE)), "recorder", "python"))
os.environ["OMP_NUM_THREADS"] = "1"

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import lockstep_recorder
from forked_ranks import load_all, run_forked

SAMPLES, CLASSES, BATCH, EPOCHS = 46, 3, 4, 2


def images(samples=SAMPLES):
    draw = torch.Generator().manual_seed(1)
    return TensorDataset(torch.randn(samples, 1, 6, 6, generator=draw), torch.randint(0, CLASSES, (samples,), generator=draw))


def texts():
    draw = torch.Generator().manual_seed(2)
    return TensorDataset(torch.randint(0, 20, (SAMPLES, 5), generator=draw), torch.randint(0, CLASSES, (SAMPLES,), generator=draw))


def convolutions():
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, CLASSES))


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.drop, self.out = nn.Embedding(20, 8), nn.Dropout(0.3), nn.Linear(8, CLASSES)

    def forward(self, x):
        return self.out(self.drop(self.words(x).mean(1)))


class WithUnused(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head, self.other_head = nn.Flatten(), nn.Linear(36, CLASSES), nn.Linear(36, CLASSES)

    def forward(self, x):
        return self.head(self.body(x))


def loader_of(data, mistake):
    if mistake == "shuffle_without_sampler":
        return DataLoader(data, batch_size=BATCH, shuffle=True), None
    sampler = DistributedSampler(data)
    return DataLoader(data, batch_size=BATCH, sampler=sampler), sampler


def classify_images(rank, mistake):
    torch.manual_seed(rank)
    loader, sampler = loader_of(images(SAMPLES + 4 * rank if mistake == "dataset_differs" else SAMPLES), mistake)
    model = WithUnused() if mistake == "unused_parameter" else convolutions()
    early = torch.optim.SGD(convolutions().parameters(), lr=0.1)
    ddp = DistributedDataParallel(model, find_unused_parameters=mistake == "unused_parameter")
    if mistake == "loaded_on_rank_zero" and rank == 0:
        ddp.module.load_state_dict(convolutions().state_dict())
    rate = 0.2 if mistake == "other_learning_rate" and rank == 1 else 1e30 if mistake == "diverges" else 0.1
    optimizer = early if mistake == "other_tensors" else torch.optim.SGD(ddp.parameters(), lr=rate, momentum=0.9)
    second = torch.optim.SGD(ddp.module[4].parameters(), lr=0.01) if mistake == "second_optimizer" else None
    for epoch in range(EPOCHS):
        if sampler and mistake != "set_epoch_forgotten":
            sampler.set_epoch(epoch)
        for number, (x, y) in enumerate(loader):
            is_last = epoch == EPOCHS - 1 and number == len(loader) - 1
            if mistake == "one_step_fewer" and is_last and rank == 1 or mistake == "early_stop" and rank == 1 and number == 2:
                return
            if mistake == "killed" and rank == 1 and number == 2:
                os.kill(os.getpid(), signal.SIGKILL)
            if mistake == "throws" and rank == 1 and number == 2:
                raise ValueError("a bad sample")
            optimizer.zero_grad()
            forward = ddp.module if mistake == "bare_forward" else ddp
            cross_entropy(forward(x), y).backward()
            if mistake == "clipped_on_one_rank" and rank == 1:
                nn.utils.clip_grad_norm_(ddp.parameters(), 0.01)
            optimizer.step()
            if second:
                second.step()
        if mistake == "extra_collective" and rank == 0:
            dist.all_reduce(torch.ones(1))
        dist.barrier()
    hits = torch.zeros(2)
    ddp.eval()
    odd = images(SAMPLES - 1)
    own = DistributedSampler(odd, shuffle=False) if mistake == "padded_evaluation" else list(range(len(odd)))[rank::dist.get_world_size()]
    with torch.no_grad():
        for x, y in DataLoader(odd, batch_size=BATCH, sampler=own):
            hits += torch.tensor([(ddp.module(x).argmax(1) == y).sum(), len(y)])
    dist.all_reduce(hits)


def classify_texts(rank, mistake):
    torch.manual_seed(0 if mistake == "one_seed" else rank)
    loader, sampler = loader_of(texts(), mistake)
    ddp = DistributedDataParallel(Words())
    optimizer = torch.optim.Adam(ddp.parameters())
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            cross_entropy(ddp(x), y).backward()
            nn.utils.clip_grad_norm_(ddp.parameters(), 1.0)
            optimizer.step()
        schedule.step()
    of_all = torch.ones(5)
    dist.all_reduce(of_all, async_op=True).wait()
    dist.all_reduce(tensor=of_all, op=dist.ReduceOp.MAX)
    dist.broadcast(of_all, src=0)


def accumulate(rank, mistake):
    torch.manual_seed(rank)
    loader, sampler = loader_of(images(), mistake)
    ddp = DistributedDataParallel(nn.Sequential(nn.Flatten(), nn.Linear(36, 8), nn.Tanh(), nn.Linear(8, CLASSES)))
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    fixed = next(iter(DataLoader(images(), batch_size=BATCH)))
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        batches = list(loader)[:4]
        for number, (x, y) in enumerate(batches):
            if mistake == "same_data":
                x, y = fixed
            ddp.require_backward_grad_sync = number % 2 == 1 and mistake != "never_synchronised"  # What no_sync() sets.
            (cross_entropy(ddp(x), y) / 2).backward()
            if number % 2 == 1:
                optimizer.step()
                optimizer.zero_grad()


def join_uneven(rank, mistake):
    """Ranks with fewer batches shadow the others, in two joins."""
    torch.manual_seed(rank)
    loader, sampler = loader_of(images(), mistake)
    ddp = DistributedDataParallel(convolutions())
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        if mistake == "loaded_after_a_join" and epoch and rank == 1:
            ddp.module.load_state_dict(convolutions().state_dict())
        with ddp.join():
            for x, y in list(loader)[rank % 2 * (1 + epoch):]:
                optimizer.zero_grad()
                cross_entropy(ddp(x), y).backward()
                if mistake == "clipped_after_a_join" and epoch and rank == 1:
                    nn.utils.clip_grad_norm_(ddp.parameters(), 0.01)
                optimizer.step()
        dist.all_reduce(torch.ones(1))


def two_models(rank, mistake):
    torch.manual_seed(rank)
    loader, sampler = loader_of(images(), mistake)
    maker = DistributedDataParallel(nn.Sequential(nn.Linear(4, 36), nn.Tanh()))
    judge = DistributedDataParallel(nn.Sequential(nn.Flatten(), nn.Linear(36, 1)))
    makes, judges = (torch.optim.Adam(each.parameters(), lr=1e-3) for each in (maker, judge))
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        for x, _ in loader:
            judges.zero_grad()
            fake = maker(torch.randn(len(x), 4))
            (judge(fake.detach().view(-1, 1, 6, 6)).mean() - judge(x).mean()).backward()
            judges.step()
            makes.zero_grad()
            judge(maker(torch.randn(len(x), 4)).view(-1, 1, 6, 6)).mean().neg().backward()
            makes.step()


def divide_state(rank, mistake):
    """Each rank has the state of some parameters, and updates them for all."""
    torch.manual_seed(rank)
    loader, sampler = loader_of(images(), mistake)
    ddp = DistributedDataParallel(nn.Sequential(nn.Flatten(), nn.Linear(36, 8), nn.Tanh(), nn.Linear(8, CLASSES)))
    optimizer = ZeroRedundancyOptimizer(ddp.parameters(), torch.optim.Adam, lr=1e-2)
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            cross_entropy(ddp(x), y).backward()
            optimizer.step()


def train_otherwise(rank, way):
    """Right ways that few programs go: local SGD, a second stage with an optimizer of its own, updates by hand, a penalty's backward."""
    torch.manual_seed(0)
    loader, sampler = loader_of(images(), way)
    net = nn.Sequential(nn.Flatten(), nn.Linear(36, 8), nn.Tanh(), nn.Linear(8, CLASSES))
    model = net if way == "local_sgd" else DistributedDataParallel(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        if way == "two_stages" and epoch:
            optimizer = torch.optim.Adam(model.parameters())
        for number, (x, y) in enumerate(loader):
            model.zero_grad()
            local = way == "local_sgd_in_no_sync"
            with model.no_sync() if local else contextlib.nullcontext():
                cross_entropy(model(x), y).backward()
            if way == "penalty":
                (0.01 * sum(p.pow(2).sum() for p in net.parameters())).backward()
            if way == "own_updates":
                with torch.no_grad():
                    for p in model.parameters():
                        p -= 0.1 * p.grad
                continue
            optimizer.step()
            if way.startswith("local_sgd") and number % 3 == 2:
                for p in net.parameters():
                    dist.all_reduce(p.data)
                    p.data /= dist.get_world_size()


def train_in_two_runs(rank, mistake):
    """One epoch, and then a checkpoint; what resumes it makes the next one."""
    torch.manual_seed(rank)
    begin, path = 0 if mistake == "first_run" else 1, os.path.join(sys.argv[1], "checkpoint")
    loader, sampler = loader_of(images(), mistake)
    ddp = DistributedDataParallel(nn.Sequential(nn.Flatten(), nn.Linear(36, CLASSES)))
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    if begin and mistake != "another_run":
        ddp.module.load_state_dict(torch.load(path))
    sampler.set_epoch(0 if mistake == "resumed_at_epoch_zero" else begin)
    for x, y in loader:
        optimizer.zero_grad()
        cross_entropy(ddp(x), y).backward()
        optimizer.step()
    if not begin and rank == 0:
        torch.save(ddp.module.state_dict(), path)


def wait_without_futures(rank, mistake):
    """A backend whose works have no futures: a collective is done when the program has waited for it."""
    def no_future(_):
        raise RuntimeError("this backend has no futures")
    of_all = torch.ones(5)
    dist.Work.get_future = no_future
    dist.all_reduce(of_all, async_op=True).wait()


PROGRAMS = {"texts": classify_texts, "one_seed": classify_texts, "accumulation": accumulate, "same_data": accumulate, "never_synchronised": accumulate,
            "uneven": join_uneven, "loaded_after_a_join": join_uneven, "clipped_after_a_join": join_uneven,
            "two_models": two_models, "divided_state": divide_state, "without_futures": wait_without_futures,
            **dict.fromkeys(("local_sgd", "local_sgd_in_no_sync", "two_stages", "own_updates", "penalty"), train_otherwise),
            **dict.fromkeys(("first_run", "resumed", "resumed_at_epoch_zero", "another_run"), train_in_two_runs)}


def rank_of_program(folder, name, rank, world):
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world))
    lockstep_recorder.start(os.path.join(folder, "%s-%d" % (name, world)), name + ".py")
    dist.init_process_group("gloo", init_method="file://" + os.path.join(folder, "%s-%d.store" % (name, world)), rank=rank,
                            world_size=world, timeout=datetime.timedelta(seconds=5))
    PROGRAMS.get(name, classify_images)(rank, name)


def main(folder, wanted):
    load_all()
    for each in wanted:
        name, world = each.split(":")
        run_forked(int(world), lambda rank: rank_of_program(folder, name, rank, int(world)))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
