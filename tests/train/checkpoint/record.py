"""Writes the files of Python's PyTorch in recorded/, which checkpoint_test.cpp reads.

usage: .venv-peer/bin/python tests/train/checkpoint/record.py FOLDER
"""
import sys

import torch

OPTIMIZERS = (
    ("sgd", lambda p: torch.optim.SGD(p, lr=0.125, momentum=0.5, nesterov=True)),
    ("plain_sgd", lambda p: torch.optim.SGD(p, lr=0.125)),
    ("adam", lambda p: torch.optim.Adam(p, lr=0.0625, amsgrad=True)),
    ("adamw", lambda p: torch.optim.AdamW(p, lr=0.0625, weight_decay=0.25)))


def make():
    net = torch.nn.Sequential(torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 4), torch.nn.Linear(4, 2))
    with torch.no_grad():
        for i, p in enumerate(net.parameters()):
            p.copy_(((torch.arange(p.numel()) + i) % 5).view(p.shape) * 0.125 - 0.1875)
    return net


def train(net, optimizer, steps):
    for step in range(steps):
        optimizer.zero_grad()
        net((torch.arange(15.).view(5, 3) - step) / 16).square().mean().backward()
        optimizer.step()


def main(folder):
    for name, make_optimizer in OPTIMIZERS:
        net = make()
        optimizer = make_optimizer(net.parameters())
        train(net, optimizer, 3)
        torch.save({"model": net.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 7},
                   "%s/%s.pt" % (folder, name))
        train(net, optimizer, 2)
        torch.save(net.state_dict(), "%s/%s_two_steps_later.pt" % (folder, name))


if __name__ == "__main__":
    main(sys.argv[1])
