"""The Python side of bench/cifar10.py: examples/cifar10 in PyTorch, with torch.nn.parallel.DistributedDataParallel.

usage: cifar10_in_pytorch.py --data FOLDER --epochs N --batch N

A rank of a world that a launcher has started; only the Python of .venv-peer can run it. Batch normalisation is each
rank's own: PyTorch's SyncBatchNorm does not run on the CPU.
"""

import argparse
import pathlib
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

RECORD = 1 + 3 * 32 * 32


class Cifar10(Dataset):
    def __init__(self, folder):
        files = [folder / f"data_batch_{number}.bin" for number in range(1, 6)]
        records = torch.cat([torch.frombuffer(bytearray(file.read_bytes()), dtype=torch.uint8) for file in files])
        records = records.view(-1, RECORD)
        self.labels = records[:, 0].long()
        self.images = records[:, 1:].contiguous().view(-1, 3, 32, 32)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.images[index].float() / 127.5 - 1, self.labels[index]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16)
        self.conv2, self.norm2 = nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32)
        self.hidden, self.out = nn.Linear(32 * 8 * 8, 64), nn.Linear(64, 10)

    def forward(self, images):
        x = torch.max_pool2d(torch.relu(self.norm1(self.conv1(images))), 2)
        x = torch.max_pool2d(torch.relu(self.norm2(self.conv2(x))), 2)
        return self.out(torch.relu(self.hidden(x.flatten(1))))


def augmented(images):
    return torch.where(torch.rand(images.size(0), 1, 1, 1) < 0.5, images.flip(3), images)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--batch", type=int, required=True)
    arguments = parser.parse_args()
    dist.init_process_group("gloo")
    images = Cifar10(arguments.data)
    torch.manual_seed(dist.get_rank())
    ddp = DistributedDataParallel(Net())
    sampler = DistributedSampler(images, drop_last=True)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.05, momentum=0.9)
    loader = DataLoader(images, arguments.batch // dist.get_world_size(), sampler=sampler)
    for epoch in range(arguments.epochs):
        sampler.set_epoch(epoch)
        start = time.perf_counter()
        loss_sum = torch.zeros(())
        for data, target in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(ddp(augmented(data)), target)
            loss.backward()
            optimizer.step()
            loss_sum += loss.detach()
        seconds = time.perf_counter() - start
        loss_sum /= len(loader)
        dist.all_reduce(loss_sum)
        if dist.get_rank() == 0:
            print(f"epoch {epoch + 1}: loss {loss_sum.item() / dist.get_world_size():.6g}, "
                  f"{int(len(loader) * arguments.batch / seconds)} images/s", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
