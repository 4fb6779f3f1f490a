"""The data and the models of the training programs."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, DistributedSampler, TensorDataset

SAMPLES, CLASSES, BATCH, EPOCHS = 46, 3, 4, 2


def images(samples=SAMPLES):
    draw = torch.Generator().manual_seed(1)
    return TensorDataset(torch.randn(samples, 1, 6, 6, generator=draw), torch.randint(0, CLASSES, (samples,), generator=draw))


def texts():
    draw = torch.Generator().manual_seed(2)
    return TensorDataset(torch.randint(0, 20, (SAMPLES, 5), generator=draw), torch.randint(0, CLASSES, (SAMPLES,), generator=draw))


def convolutions():
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, CLASSES))


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.drop, self.out = nn.Embedding(20, 8), nn.Dropout(0.3), nn.Linear(8, CLASSES)

    def forward(self, x):
        return self.out(self.drop(self.words(x).mean(1)))


class WithUnused(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head, self.other_head = nn.Flatten(), nn.Linear(36, CLASSES), nn.Linear(36, CLASSES)

    def forward(self, x):
        return self.head(self.body(x))


class Files(Dataset):
    """Reads and augments what its files hold, so that no two ranks are handed the same values."""

    def __init__(self, names):
        self.names = names

    def __len__(self):
        return len(self.names)

    def __getitem__(self, index):
        number = int(self.names[index].removesuffix(".png"))
        return torch.full((1, 6, 6), float(number)) + torch.randn(1, 6, 6), number % CLASSES


def loader_of(data, mistake):
    if mistake == "files_without_sampler":
        data = Files(["%d.png" % number for number in range(SAMPLES)])
    if mistake.endswith("_without_sampler"):
        return DataLoader(data, batch_size=BATCH, shuffle=True), None
    sampler = DistributedSampler(data)
    return DataLoader(data, batch_size=BATCH, sampler=sampler), sampler
