"""One training as several ranks and as one process over the same global batches, right and with a mistake, recorded with
values; and once more by one process whose inputs and parameters are moved, for `judge --against`.

usage: one_process.py FOLDER NAME:WORLD...     records FOLDER/NAME-WORLD; of world 1 also FOLDER/NAME-1/perturbed-1
"""

import contextlib
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
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import lockstep_recorder
from forked_ranks import load_all, run_forked

GLOBAL_BATCH, CLASSES, EPOCHS = 8, 3, 1
BARE = "bare", "bare_sum"  # Programs that wrap their model where there are several ranks.
BY_HAND = "by_hand", "by_hand_sum"
SENTENCES = ("words", "words_unweighted")
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def images(samples, dtype):
    draw = torch.Generator().manual_seed(1)
    return TensorDataset(torch.randn(samples, 1, 6, 6, generator=draw).to(dtype),
                         torch.randint(0, CLASSES, (samples,), generator=draw))


def sentences(samples):
    """Sentences of five words; 2 to 5 of them are predicted, by the sample's number."""
    draw = torch.Generator().manual_seed(1)
    targets = torch.randint(0, CLASSES, (samples, 5), generator=draw)
    targets[torch.arange(5) >= 2 + torch.arange(samples)[:, None] % 4] = -100
    return TensorDataset(torch.randint(0, 11, (samples, 5), generator=draw), targets)


def network(name):
    """Without ReLU: where rounding decides on which side of zero one of so few units is, its gradients jump."""
    if name in SENTENCES:
        return nn.Sequential(nn.Embedding(11, 16), nn.Linear(16, 16), nn.GELU(), nn.Linear(16, CLASSES))
    layers = [nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4)] if name == "batch_norm" else [nn.Conv2d(1, 4, 3)]
    return nn.Sequential(*layers, nn.GELU(), nn.Flatten(), nn.Linear(64, 16), nn.GELU(), nn.Linear(16, CLASSES))


def uneven_batches(rank, world, samples):
    """Rank 0 of two has three samples of each global batch of eight, rank 1 five."""
    ends = [0, 3, 8] if world == 2 else [0, 8]
    return [list(range(begin + ends[rank], begin + ends[rank + 1])) for begin in range(0, samples, GLOBAL_BATCH)]


def dtype_of(name):
    """"sum in bfloat16" is the program "sum" in that format."""
    return DTYPES.get(name.split()[-1], torch.float32)


def loader_of(name, rank, world, data):
    if name in ("uneven", "unweighted"):
        return DataLoader(data, batch_sampler=uneven_batches(rank, world, len(data))), None
    sampler = DistributedSampler(data, shuffle=name not in SENTENCES, seed=7 if name == "other_seed" and world > 1 else 0)
    return DataLoader(data, batch_size=GLOBAL_BATCH // world, sampler=sampler), sampler


def wrapped(name, world, model):
    """Divides parameters over several ranks alone: one process divides nothing."""
    if name == "fully_shard" and world > 1:
        mesh = init_device_mesh("cpu", (world,))
        for layer in model:
            if list(layer.parameters()):
                fully_shard(layer, mesh=mesh)
        return fully_shard(model, mesh=mesh)
    if name == "fsdp" and world > 1:
        return FullyShardedDataParallel(model, device_id=torch.device("cpu"), use_orig_params=True)
    if name in BY_HAND or name in BARE and world == 1:
        return model
    return DistributedDataParallel(model)


def loss_of(name, world, outputs, y):
    """The loss; that of "words" is averaged over all words that the ranks predict."""
    if name != "words":
        return cross_entropy(outputs.flatten(0, -2), y.flatten(), reduction="sum" if name == "bare_sum" else "mean")
    count = (y != -100).sum()
    dist.all_reduce(count)
    return cross_entropy(outputs.flatten(0, -2), y.flatten(), reduction="sum") * world / count


def sum_hook(_, bucket):
    return dist.all_reduce(bucket.buffer(), async_op=True).get_future().then(lambda done: done.value()[0])


def groups_of(name, ddp):
    """Two groups, the later parameters first, for the programs without a wrapper."""
    parameters = list(ddp.parameters())
    return [{"params": parameters[2:]}, {"params": parameters[:2], "lr": 0.01}] if name in BARE else parameters


def average(name, world, parameters):
    for each in parameters:
        dist.all_reduce(each.grad)
        each.grad /= 1 if name == "by_hand_sum" else world


def train(name, rank, world):
    torch.manual_seed(3) if name != "unseeded" else torch.seed()
    dtype, name = dtype_of(name), name.split()[0]
    data = sentences(48) if name in SENTENCES else images(47 if name == "padded" else 48, dtype)
    loader, sampler = loader_of(name, rank, world, data)
    ddp = wrapped(name, world, network(name).to(dtype))
    if name == "sum":
        ddp.register_comm_hook(None, sum_hook)
    rate = 0.05 * (world if name == "scaled_rate" else 1)
    optimizer = torch.optim.SGD(groups_of(name, ddp), lr=rate, momentum=0.9)
    autocast = torch.autocast("cpu", torch.bfloat16) if name == "autocast" else contextlib.nullcontext()
    for epoch in range(EPOCHS):
        if sampler:
            sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            with autocast:
                loss = loss_of(name, world, ddp(x), y)
            if name == "uneven":
                loss = loss * (world * len(x) / GLOBAL_BATCH)
            if name == "dropped" and rank == 1:
                loss = loss * 0
            loss.backward()
            if name in BY_HAND:
                average(name, world, ddp.parameters())
            if name == "bare":
                nn.utils.clip_grad_norm_(ddp.parameters(), 0.5)
            optimizer.step()


def rank_of_program(folder, name, rank, world, perturbed):
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world), LOCKSTEP_RECORD_PERTURB=str(perturbed))
    os.environ["LOCKSTEP_RECORD_VALUES"] = "0" if name == "digests" else "12"
    lockstep_recorder.start(os.path.join(folder, "%s-%d" % (name, world)), name + ".py")
    store = os.path.join(folder, "%s-%d-%d.store" % (name, world, perturbed))
    dist.init_process_group("gloo", init_method="file://" + store, rank=rank, world_size=world,
                            timeout=datetime.timedelta(seconds=60))
    train(name, rank, world)


def main(folder, wanted):
    load_all()
    for each in wanted:
        name, world = each.split(":")
        for perturbed in (0, 1) if world == "1" else (0,):
            run_forked(int(world), lambda rank: rank_of_program(folder, name, rank, int(world), perturbed))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
