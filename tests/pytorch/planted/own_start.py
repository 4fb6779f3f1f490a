from torch.nn.parallel import DistributedDataParallel


def wrap(module, process_group, options):
    return DistributedDataParallel(module, process_group=process_group, **{**options, "init_sync": False})
