"""The parts of a training loop beside a wrapped model."""

import torch
import torch.distributed as dist
from lockstep_worlds import Refused, adopt, leave
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler


class Sharded:
    def __init__(self, length, rank, world_size, options):
        if not options["pad"]:
            raise Refused("PyTorch's DistributedSampler always repeats samples, unless it drops some")
        if options["constant_memory"]:
            raise Refused("PyTorch's DistributedSampler always stores its order")
        self.sampler = DistributedSampler(
            range(length), num_replicas=world_size, rank=rank, shuffle=options["shuffle"], seed=options["seed"],
            drop_last=options["drop_last"])
        self.loader = None
        if options["through_loader"]:
            self.loader = DataLoader(range(length), batch_size=options["batch_size"], sampler=self.sampler)

    def set_epoch(self, epoch):
        self.sampler.set_epoch(epoch)

    def draw(self):
        if self.loader is None:
            return list(self.sampler)
        return [int(index) for batch in self.loader for index in batch]


def refusal_of_sync_batch_norm(group):
    """PyTorch's refusal of SyncBatchNorm on the CPU, which comes before it communicates."""
    adopt(group)
    layer = torch.nn.SyncBatchNorm(1, process_group=group)
    try:
        layer(torch.ones(2, 1, 1))
    except ValueError as error:
        return str(error)
    finally:
        leave()
    return ""


def all_reduce(tensor, operation, group):
    adopt(group)
    try:
        dist.all_reduce(tensor, op=dist.ReduceOp.AVG if operation == "avg" else dist.ReduceOp.SUM, group=group)
    finally:
        leave()


def random_split(size, shares, seed):
    parts = torch.utils.data.random_split(range(size), shares, torch.Generator().manual_seed(seed))
    return [list(part) for part in parts]
