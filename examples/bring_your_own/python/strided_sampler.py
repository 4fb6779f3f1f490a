"""A sampler alone: ranks take turns with the shuffled samples, and the first ones are repeated until all have as many."""

import torch


class StridedSampler:
    def __init__(self, length, rank, world_size, options):
        self.length, self.rank, self.world_size, self.options = length, rank, world_size, options
        self.epoch = 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __iter__(self):
        order = list(range(self.length))
        if self.options["shuffle"]:
            generator = torch.Generator().manual_seed(self.options["seed"] + self.epoch)
            order = torch.randperm(self.length, generator=generator).tolist()
        if self.options["pad"]:
            missing = -len(order) % self.world_size
            order += (order * (missing // len(order) + 1))[:missing]
        return iter(order[self.rank :: self.world_size])


def sampler(length, rank, world_size, options):
    return StridedSampler(length, rank, world_size, options)
