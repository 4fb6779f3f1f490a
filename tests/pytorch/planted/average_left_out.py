import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def summed(group, bucket):
    return dist.all_reduce(bucket.buffer(), group=group, async_op=True).get_future().then(lambda work: work.value()[0])


def wrap(module, process_group, options):
    ddp = DistributedDataParallel(module, process_group=process_group, **options)
    ddp.register_comm_hook(process_group, summed)
    return ddp
