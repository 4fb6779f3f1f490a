"""Training programs in the manner of the field's examples, right ones and ones with a usual mistake, all recorded.

usage: programs.py FOLDER NAME:WORLD...     each NAME:WORLD is recorded into FOLDER/NAME-WORLD

Runs with PyTorch's Python. LibTorch is loaded once, and each rank is a fork.
"""

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
from torch.utils.data import DataLoader, DistributedSampler

from forked_ranks import record_programs
from program_data import BATCH, CLASSES, EPOCHS, SAMPLES, WithUnused, Words, convolutions, images, loader_of, texts
from rare_programs import train_an_ensemble, train_in_stages, train_in_two_runs, train_otherwise

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
            averages = number % 2 == (0 if mistake == "last_in_no_sync" else 1)
            ddp.require_backward_grad_sync = averages and mistake != "never_synchronised"  # What no_sync() sets.
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


def tell_one(rank, mistake):
    """A tensor that concerns two ranks of several, and then one that concerns all."""
    if rank < 2:
        (dist.recv if rank else dist.send)(torch.zeros(1), 1 - rank)
    classify_texts(rank, "texts")


def wait_without_futures(rank, mistake):
    """A backend whose works have no futures: a collective is done when the program has waited for it."""
    def no_future(_):
        raise RuntimeError("this backend has no futures")
    of_all = torch.ones(5)
    dist.Work.get_future = no_future
    dist.all_reduce(of_all, async_op=True).wait()


PROGRAMS = {"texts": classify_texts, "one_seed": classify_texts, "accumulation": accumulate, "same_data": accumulate, "never_synchronised": accumulate,
            "uneven": join_uneven, "loaded_after_a_join": join_uneven, "clipped_after_a_join": join_uneven,
            "last_in_no_sync": accumulate, "stages": train_in_stages, "given_to_one": tell_one,
            "ensemble": train_an_ensemble, "ensemble_with_one_reset": train_an_ensemble,
            "two_models": two_models, "divided_state": divide_state, "without_futures": wait_without_futures,
            **dict.fromkeys(("local_sgd", "local_sgd_in_no_sync", "local_sgd_by_hook", "averaged_in_no_sync", "two_stages", "own_updates", "penalty"), train_otherwise),
            **dict.fromkeys(("first_run", "resumed", "resumed_at_epoch_zero", "another_run"), train_in_two_runs)}


def run(rank, name):
    PROGRAMS.get(name, classify_images)(rank, name)


if __name__ == "__main__":
    record_programs(run, sys.argv[1], sys.argv[2:], 5)
