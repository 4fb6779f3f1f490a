"""Data-parallel training without a wrapper: what the tests of this project are about."""

import torch
import torch.distributed as dist


def average_gradients(model):
    """Replaces each gradient by its average over the ranks, in one all-reduce."""
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    dist.all_reduce(flat)
    flat /= dist.get_world_size()
    for gradient, average in zip(gradients, flat.split([gradient.numel() for gradient in gradients])):
        gradient.copy_(average.view_as(gradient))


def average_over_samples(model, samples):
    """The same where ranks have batches of different sizes: each rank's gradients weigh as much as its samples."""
    total = torch.tensor(float(samples))
    dist.all_reduce(total)
    for parameter in model.parameters():
        parameter.grad *= samples * dist.get_world_size() / total
    average_gradients(model)


def train(model, batches, rate=0.1):
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)
    for inputs, targets in batches:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(inputs), targets).backward()
        average_gradients(model)
        optimizer.step()
