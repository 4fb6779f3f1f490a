import torch


class Strided:
    def __init__(self, length, rank, world_size, options):
        if options["drop_last"] or not options["pad"]:
            raise NotImplementedError
        self.length, self.first, self.step = length, rank, world_size
        self.shuffle, self.seed, self.epoch = options["shuffle"], options["seed"], 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __iter__(self):
        order = list(range(self.length))
        if self.shuffle:
            order = torch.randperm(self.length, generator=torch.Generator().manual_seed(self.seed + self.epoch)).tolist()
        return iter(order[self.first :: self.step])


def sampler(length, rank, world_size, options):
    return Strided(length, rank, world_size, options)
