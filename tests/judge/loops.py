"""Training loops that a seed draws, right ones and ones with a planted mistake, all recorded.

usage: loops.py FOLDER [--plain] SEED:MISTAKE[+one]...     records FOLDER/SEED-MISTAKE; MISTAKE is "right" or a key of MISTAKES
       loops.py --list RIGHT EACH RIGHT EACH               lists so many right loops and so many of each mistake, and so many of
                                                           both that are compared with one process (listed)

With +one the right loop is also recorded in one process that draws the same global batches, and once more with inputs moved, into
FOLDER/SEED-one; all with values. With --plain nothing is recorded. Each rank prints a checksum of its parameters.

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
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

import lockstep_recorder
from drawn_loops import alone, draw, is_wrapped, listed
from forked_ranks import load_all, run_forked
from loop_data import CLASSES, Feed, evaluate, samples_of
from loop_models import model_of


def wrapped(loop, module):
    if not is_wrapped(loop):
        for each in module.parameters():
            dist.broadcast(each.detach(), 0)
        return module
    ddp = DistributedDataParallel(module, find_unused_parameters=loop.model == "alternating", gradient_as_bucket_view=loop.wrapper == "views",
                                  static_graph=loop.wrapper == "static")
    if loop.wrapper == "hook":
        ddp.register_comm_hook(None, allreduce_hook)
    return ddp


def optimizers_of(loop, model, rate, mistake):
    parameters = [each for each in model.parameters() if each.requires_grad]
    kind, middle = loop.optimizer, len(parameters) // 2
    if kind == "adam":
        return [torch.optim.Adam(parameters, lr=rate)]
    if kind == "adamw_groups":
        flat = [each for each in parameters if each.dim() < 2]
        return [torch.optim.AdamW([{"params": [each for each in parameters if each.dim() > 1]}, {"params": flat, "weight_decay": 0.0}], lr=rate)]
    if kind == "rmsprop":
        return [torch.optim.RMSprop(parameters, lr=rate / 10)]
    if kind == "two":
        first = torch.optim.SGD(parameters[:middle], lr=rate, momentum=0.9)
        return [first] if mistake == "half_forgotten" else [first, torch.optim.Adam(parameters[middle:], lr=rate / 5)]
    if kind == "zero":
        return [ZeroRedundancyOptimizer(parameters, torch.optim.Adam, lr=rate / 5)]
    if kind == "lbfgs":
        return [torch.optim.LBFGS(parameters, lr=rate, max_iter=2)]
    return [torch.optim.SGD(parameters, lr=rate, momentum=0.9 if kind == "momentum" else 0)]


def schedules_of(loop, optimizers):
    steps = loop.epochs * loop.batches // loop.accumulation
    make = {"none": lambda optimizer: [], "epoch": lambda optimizer: [torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)],
            "step": lambda optimizer: [torch.optim.lr_scheduler.LinearLR(optimizer, 0.5, total_iters=steps)]}[loop.schedule]
    return [schedule for optimizer in optimizers for schedule in make(optimizer)]


class Training:
    """A rank's training. Its mistake is planted where it would be made."""

    def __init__(self, loop, rank, mistake, folder):
        self.loop, self.rank, self.mistake, self.folder, self.update = loop, rank, mistake, folder, 0
        torch.manual_seed(3)
        self.data = samples_of(loop, rank, mistake)
        self.dtype = torch.double if loop.precision == "double" else torch.float32
        self.module = model_of(loop).to(self.dtype)
        self.model = self.module if mistake == "not_wrapped" else wrapped(loop, self.module)
        torch.manual_seed(100 + rank)  # for dropout
        if mistake == "loaded_on_rank_zero" and rank == 0:
            self.module.load_state_dict(model_of(loop).state_dict())
        if mistake == "unfrozen_late":
            self.module[0].requires_grad_(True)
        rate = 1e30 if mistake == "diverges" else 0.1 if mistake == "rate_differs" and rank == 1 else 0.05
        self.optimizers = optimizers_of(loop, self.module, rate * (loop.world if mistake == "rate_scaled" else 1), mistake)
        if mistake == "layer_replaced":
            self.module[2] = nn.Linear(8, CLASSES, dtype=self.dtype)
            self.model = DistributedDataParallel(self.module)
        self.schedules = schedules_of(loop, self.optimizers)
        self.scaler = torch.amp.GradScaler("cpu", enabled=loop.precision.startswith("scaler"), init_scale=256.0)
        self.average = copy.deepcopy(self.module) if loop.ema else None
        self.feed = Feed(loop, self.data, rank, mistake)

    def is_at(self, mistake, rank):
        return self.mistake == mistake and self.rank == rank

    def loss(self, x, y):
        loop, precise = self.loop, contextlib.nullcontext()
        if loop.precision == "autocast":
            precise = torch.autocast("cpu", torch.bfloat16)
        with precise:
            loss = cross_entropy((self.module if self.mistake == "bare_forward" else self.model)(x.to(self.dtype)), y)
        if loop.divided and self.mistake != "not_divided":
            loss = loss / loop.accumulation
        if self.mistake == "summed":
            loss = loss * loop.world
        if self.is_at("batch_left_out", 1):
            loss = loss * 0
        if loop.precision == "scaler_skips" and self.rank == 0 and self.update == 1:
            loss = loss * float("inf")
        return loss

    def backward(self, x, y, is_last):
        is_local = (self.loop.no_sync and not is_last) or self.mistake == "never_synchronised"
        can_skip = is_local and isinstance(self.model, DistributedDataParallel)
        with self.model.no_sync() if can_skip else contextlib.nullcontext():
            loss = self.loss(x, y)
            self.scaler.scale(loss).backward()
        return loss

    def average_gradients(self):
        gradients = [each.grad for each in self.module.parameters() if each.grad is not None]
        for gradient in gradients[:-1] if self.mistake == "average_in_part" else [] if self.mistake == "average_forgotten" else gradients:
            dist.all_reduce(gradient)
            gradient /= self.loop.world

    def prepare(self):
        """Prepares gradients for an update."""
        clip, parameters = self.loop.clip, [each for each in self.module.parameters() if each.requires_grad]
        if not is_wrapped(self.loop):
            self.average_gradients()
        for optimizer in self.optimizers:
            self.scaler.unscale_(optimizer)
        if self.is_at("clipped_on_one_rank", 0):
            nn.utils.clip_grad_norm_(parameters, 1e-3)
        elif clip == "norm":
            nn.utils.clip_grad_norm_(parameters, 1.0)
        elif clip == "value":
            nn.utils.clip_grad_value_(parameters, 0.05)

    def clear(self):
        for optimizer in self.optimizers if self.mistake != "clear_forgotten" else ():
            optimizer.zero_grad()

    def step_by_closure(self, x, y):
        def closure():
            self.clear()
            loss = self.backward(x, y, True)
            self.prepare()
            return loss
        return self.optimizers[0].step(closure)

    def step(self):
        self.prepare()
        if not (self.is_at("skips_an_update", 1) and self.update == 1):
            for optimizer in self.optimizers:
                self.scaler.step(optimizer)
        self.scaler.update()
        self.clear()

    def after_update(self, loss):
        loop, self.update = self.loop, self.update + 1
        if self.is_at("noise_on_one_rank", 1) and self.update == 1:  # no checkpoint takes that back
            with torch.no_grad():
                next(each for each in self.module.parameters() if each.requires_grad).view(-1)[0] += 0.125
        if loop.logs == "reduced" or (self.is_at("logs_on_rank_zero", 0) and self.update == 2):
            dist.all_reduce(loss.detach().clone())
        if loop.logs == "objects":
            dist.all_gather_object([None] * loop.world, loss.item())
        if self.average is not None:
            with torch.no_grad():
                for old, new in zip(self.average.parameters(), self.module.parameters()):
                    old.lerp_(new, 0.1)
        for schedule in self.schedules if loop.schedule == "step" else ():
            schedule.step()

    def stops(self, epoch, number):
        if self.is_at("stops_early", 1) and self.update == 2:
            return True
        if not self.loop.stops_together or epoch < self.loop.epochs - 1:
            return False
        says = torch.tensor(float(self.rank == 0 and number >= self.loop.accumulation))
        dist.broadcast(says, 0)
        return bool(says)

    def restore(self):
        path = os.path.join(self.folder, "checkpoint")
        for number, optimizer in enumerate(self.optimizers):
            if self.loop.optimizer == "zero":
                optimizer.consolidate_state_dict(0)
            if self.rank == 0:
                torch.save({"model": self.module.state_dict(), "optimizer": optimizer.state_dict()}, path + str(number))
        dist.barrier()
        for number, optimizer in enumerate(self.optimizers):
            saved = torch.load(path + str(number))
            self.module.load_state_dict(saved["model"])
            if self.mistake != "state_on_rank_zero" or self.rank == 0:
                optimizer.load_state_dict(saved["optimizer"])
            else:
                optimizer.state.clear()

    def run(self):
        loop = self.loop
        if loop.peek:
            with torch.no_grad():
                for x, _ in self.feed.epoch(0):
                    self.module(x.to(self.dtype))
                    break
        for epoch in range(loop.epochs):
            if loop.rewrapped and epoch:
                self.model = wrapped(loop, self.module)
            self.clear()
            for number, (x, y) in enumerate(self.feed.epoch(epoch)):
                is_last = number % loop.accumulation == loop.accumulation - 1
                if loop.optimizer in ("closure", "lbfgs"):
                    loss = self.step_by_closure(x, y)
                else:
                    loss = self.backward(x, y, is_last)
                    if not is_last:
                        if self.mistake == "clipped_before_averaging":
                            nn.utils.clip_grad_norm_(self.module.parameters(), 1e-2)
                        continue
                    self.step()
                self.after_update(loss)
                if self.stops(epoch, number):
                    return self.module
            is_late = self.mistake == "schedule_on_rank_zero" and self.rank > 0
            for schedule in self.schedules if loop.schedule == "epoch" and not is_late else ():
                schedule.step()
            evaluate(loop, self.module, self.model, self.data, self.rank, self.mistake)
            if loop.checkpoint and epoch == 0:
                self.restore()
        return self.module


def rank_of_loop(name, mistake, loop, rank, plain=False, **variables):
    files = f"{name}-{mistake}{''.join(variables)}.files"
    os.makedirs(files, exist_ok=True)
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(loop.world), **variables)
    if not plain:
        lockstep_recorder.start(f"{name}-{mistake}" if loop.world > 1 else name + "-one", "loop.py")
    dist.init_process_group("gloo", init_method="file://" + os.path.join(files, "store"), rank=rank, world_size=loop.world,
                            timeout=datetime.timedelta(seconds=10))
    try:
        module = Training(loop, rank, mistake, files).run()
        result = f"{sum(each.double().sum().item() for each in module.parameters()):.17g}"
    except RuntimeError as error:  # A rank that is left alone by a planted mistake.
        result = str(error)[:200]
    os.write(1, f"{os.path.basename(name)}-{mistake} rank {rank}: {result}\n".encode())  # in one piece, beside what other ranks print


def main(folder, *wanted):
    if folder == "--list":
        print(*listed(*map(int, wanted)), sep="\n")
        return
    load_all()
    values = {"LOCKSTEP_RECORD_VALUES": "4"}
    for each in wanted:
        if each != "--plain":
            seed, mistake = each.removesuffix("+one").split(":")
            loop, name = draw(int(seed)), os.path.join(folder, seed)
            is_compared = each.endswith("+one")
            with_values = values if is_compared else {}
            run_forked(loop.world, lambda rank: rank_of_loop(name, mistake, loop, rank, "--plain" in wanted, **with_values))
            if is_compared and not os.path.exists(name + "-one"):
                for moved in ({}, {"LOCKSTEP_RECORD_PERTURB": "1"}):
                    run_forked(1, lambda rank: rank_of_loop(name, "right", alone(loop), rank, **values, **moved))


if __name__ == "__main__":
    main(*sys.argv[1:])
