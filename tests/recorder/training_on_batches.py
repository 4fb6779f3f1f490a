"""A training on the batches of loaders, and datasets."""

import torch
from torch import nn
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler, TensorDataset

from watched_programs import say


def samples(count=32):
    draw = torch.Generator().manual_seed(1)
    return TensorDataset(torch.randn(count, 4, generator=draw), torch.randn(count, 1, generator=draw))


class Training:
    """A wrapped model that trains on batches."""

    def __init__(self):
        self.model = DistributedDataParallel(nn.Linear(4, 1))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05)

    def step(self, x, y):
        self.optimizer.zero_grad()
        mse_loss(self.model(x), y).backward()
        self.optimizer.step()

    def over(self, *loaders):
        for loader in loaders:
            for x, y in loader:
                self.step(x, y)
        say(self.model)
        return self


class Plain(Dataset):
    """A dataset of somebody, of which nothing is known."""

    def __init__(self, count=32):
        self.data, self.reads, self.lengths = samples(count), 0, 0

    def __len__(self):
        self.lengths += 1
        return len(self.data)

    def __getitem__(self, index):
        self.reads += 1
        return self.data[index]


def split(data, **options):
    return DataLoader(data, batch_size=4, sampler=DistributedSampler(data), **options)
