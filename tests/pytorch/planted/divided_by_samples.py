"""Divides the sum of the gradients by the samples of this rank's batch, and not by the number of ranks."""

import torch
import torch.distributed as dist


class Wrapped(torch.nn.Module):
    def __init__(self, module, group):
        super().__init__()
        self.module, self.group = module, group
        for tensor in (each.detach() for each in module.parameters()):
            dist.broadcast(tensor, group_src=0, group=group)

    def forward(self, *inputs):
        self.samples = len(inputs[0])
        return self.module(*inputs)


def wrap(module, process_group, options):
    return Wrapped(module, process_group)


def after_backward(module):
    for parameter in module.parameters():
        dist.all_reduce(parameter.grad, group=module.group)
        parameter.grad /= module.samples
