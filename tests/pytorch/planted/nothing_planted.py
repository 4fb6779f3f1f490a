"""PyTorch's DistributedDataParallel and DistributedSampler as they are: what the other files change by one mistake each."""

from torch.nn.parallel import DistributedDataParallel
from torch.utils.data.distributed import DistributedSampler


def wrap(module, process_group, options):
    return DistributedDataParallel(module, process_group=process_group, **options)


def no_sync(module):
    return module.no_sync()


def join(module):
    return module.join()


def sampler(length, rank, world_size, options):
    if not options["pad"]:
        raise NotImplementedError
    return DistributedSampler(
        range(length), num_replicas=world_size, rank=rank, shuffle=options["shuffle"], seed=options["seed"],
        drop_last=options["drop_last"])
