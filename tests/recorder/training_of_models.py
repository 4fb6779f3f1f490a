"""A training of a small model."""

import torch
from torch import nn

from watched_programs import say


def network():
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))


def sgd(model, **options):
    return torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.05, **options)


def train(model, optimizer=None, steps=3, loss=lambda model: model(torch.randn(8, 4)).square().mean()):
    optimizer = optimizer or sgd(model)
    for _ in range(steps):
        optimizer.zero_grad()
        value = loss(model)
        value.backward()
        optimizer.step()
    say(value.detach(), model)
    return model
