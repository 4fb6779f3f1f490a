"""Two mistakes in one file: rank 0's values are never sent, and gradients are summed and not divided."""

import torch
import torch.distributed as dist


class Wrapped(torch.nn.Module):
    def __init__(self, module, group):
        super().__init__()
        self.module, self.group = module, group

    def forward(self, *inputs):
        return self.module(*inputs)


def wrap(module, process_group, options):
    return Wrapped(module, process_group)


def after_backward(module):
    for parameter in module.parameters():
        if parameter.grad is not None:
            dist.all_reduce(parameter.grad, group=module.group)
