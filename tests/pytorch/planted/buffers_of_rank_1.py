from torch.nn.parallel import DistributedDataParallel


class BuffersOfRank1(DistributedDataParallel):
    def _sync_module_buffers(self, authoritative_rank):
        super()._sync_module_buffers(1)


def wrap(module, process_group, options):
    return BuffersOfRank1(module, process_group=process_group, **options)
