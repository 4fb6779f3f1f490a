"""Training programs of rare kinds: right ways that few go, and those of several runs."""

import contextlib
import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook import PostLocalSGDState, post_localSGD_hook
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

from program_data import BATCH, CLASSES, EPOCHS, images, loader_of


def train_otherwise(rank, way):
    """Right ways that few programs go: local SGD, an average by hand, a second stage with an optimizer of its own, updates by hand, a
    penalty's backward."""
    torch.manual_seed(0)
    loader, sampler = loader_of(images(), way)
    net = nn.Sequential(nn.Flatten(), nn.Linear(36, 8), nn.Tanh(), nn.Linear(8, CLASSES))
    model = net if way == "local_sgd" else DistributedDataParallel(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    if way == "local_sgd_by_hook":
        alone = [dist.new_group([each]) for each in range(dist.get_world_size())][rank]
        model.register_comm_hook(PostLocalSGDState(None, alone, start_localSGD_iter=2), post_localSGD_hook)
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        if way == "two_stages" and epoch:
            optimizer = torch.optim.Adam(model.parameters())
        for number, (x, y) in enumerate(loader):
            model.zero_grad()
            local = way.endswith("_in_no_sync")
            with model.no_sync() if local else contextlib.nullcontext():
                cross_entropy(model(x), y).backward()
            if way == "penalty":
                (0.01 * sum(p.pow(2).sum() for p in net.parameters())).backward()
            if way == "own_updates":
                with torch.no_grad():
                    for p in model.parameters():
                        p -= 0.1 * p.grad
                continue
            if way == "averaged_in_no_sync":
                for p in net.parameters():
                    dist.all_reduce(p.grad)
                    p.grad /= dist.get_world_size()
            optimizer.step()
            if way.startswith("local_sgd") and number % 3 == 2:
                for p in net.parameters():
                    dist.all_reduce(p.data)
                    p.data /= dist.get_world_size()


def train_in_stages(rank, mistake):
    """Each rank has a stage of a network; what passes between them is sent from one to the other."""
    torch.manual_seed(rank)
    net, draw = nn.Linear(8, 8), torch.Generator().manual_seed(0)
    optimizer = torch.optim.Adam(net.parameters())
    for _ in range(4):
        x, between, back = torch.randn(BATCH, 8, generator=draw), torch.empty(BATCH, 8), torch.empty(BATCH, 8)
        optimizer.zero_grad()
        if rank == 0:
            out = net(x)
            between = out.detach()
        exchange(between, rank, 0, 1)
        if rank == 1:
            between.requires_grad_()
            net(between).square().mean().backward()
            back = between.grad
        exchange(back, rank, 1, 0)
        if rank == 0:
            out.backward(back)
        optimizer.step()


def train_an_ensemble(rank, mistake):
    """Two ranks train one model, and two another one for longer."""
    torch.manual_seed(rank)
    pair, data = rank // 2, images()
    group = [dist.new_group([2 * number, 2 * number + 1]) for number in range(2)][pair]
    sampler = DistributedSampler(data, num_replicas=2, rank=rank % 2)
    ddp = DistributedDataParallel(nn.Sequential(nn.Flatten(), nn.Linear(36, CLASSES)), process_group=group)
    if mistake == "ensemble_with_one_reset" and rank == 3:
        ddp.module[1].reset_parameters()
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    for epoch in range(EPOCHS + pair):
        sampler.set_epoch(epoch)
        for x, y in DataLoader(data, batch_size=BATCH, sampler=sampler):
            optimizer.zero_grad()
            cross_entropy(ddp(x), y).backward()
            optimizer.step()


def exchange(tensor, rank, source, target):
    op = dist.P2POp(dist.isend, tensor, target) if rank == source else dist.P2POp(dist.irecv, tensor, source)
    for work in dist.batch_isend_irecv([op]):
        work.wait()


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
