"""Trainings whose ranks hold parts of a model, right ones and ones with a planted mistake, all recorded with values.

usage: divided.py FOLDER NAME:WORLD...     records FOLDER/NAME-WORLD; a world of 1 is the process beside it, in DistributedDataParallel,
                                           and once more with inputs moved

NAME begins with "hybrid" (fully_shard: replicas of shards) or "layers" (tensor parallelism). Runs with PyTorch's Python.
"""

import datetime
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(HERE)), "recorder", "python"))
os.environ["OMP_NUM_THREADS"] = "1"

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel

import lockstep_recorder
from forked_ranks import load_all, run_forked

STEPS, BATCH = 3, 8
MISTAKES = {"hybrid_replica_moved": 2, "hybrid_shard_moved": None, "layers_shard_moved": 1}  # in a mesh of 2 x 2 ranks 0 and 2 are replicas


def divided(net, kind, world):
    if world == 1:
        return DistributedDataParallel(net)
    if kind == "layers":
        return parallelize_module(net, init_device_mesh("cpu", (world,)), {"0": ColwiseParallel(), "2": RowwiseParallel()})
    mesh = init_device_mesh("cpu", (2, world // 2), mesh_dim_names=("replicas", "shards"))
    for layer in (net[0], net[2], net):
        fully_shard(layer, mesh=mesh)
    return net


def train(rank, world, name):
    kind, moves = name.partition("_")[0], MISTAKES.get(name, -1)
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(6, 8, bias=False), nn.Tanh(), nn.Linear(8, 4, bias=False))  # a bias would be on all ranks
    model = divided(net, kind, world)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, foreach=False)
    inputs, wanted = torch.randn(STEPS, BATCH, 6), torch.randn(STEPS, BATCH, 4)
    share = slice(rank, None, world) if kind == "hybrid" else slice(None)
    for step in range(STEPS):
        optimizer.zero_grad()
        mse_loss(model(inputs[step, share]), wanted[step, share]).backward()
        optimizer.step()
        # Both replicas of shard 1, or the one of a rank alone.
        if step == 0 and (moves == rank or (moves is None and rank % 2 == 1)):
            with torch.no_grad():
                net[0].weight.to_local().view(-1)[0] += 0.125


def rank_of(folder, name, rank, world, **variables):
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world), LOCKSTEP_RECORD_VALUES=str(STEPS), **variables)
    recorded = os.path.join(folder, "%s-%d" % (name, world))
    lockstep_recorder.start(recorded, name + ".py")
    dist.init_process_group("gloo", init_method="file://" + recorded + "".join(variables) + ".store", rank=rank, world_size=world,
                            timeout=datetime.timedelta(seconds=60))
    train(rank, world, name)


def main(folder, *wanted):
    load_all()
    for each in wanted:
        name, world = each.split(":")
        for moved in ({}, {"LOCKSTEP_RECORD_PERTURB": "1"})[:1 if int(world) > 1 else 2]:
            run_forked(int(world), lambda rank: rank_of(folder, name, rank, int(world), **moved))


if __name__ == "__main__":
    main(*sys.argv[1:])
