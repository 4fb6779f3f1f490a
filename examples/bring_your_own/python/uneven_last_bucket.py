"""Gradients averaged in buckets of equal size, with a mistake: what is left over for a last, smaller bucket stays
where it is."""

import torch
import torch.distributed as dist

BUCKET_ELEMENTS = 4


class Bucketed(torch.nn.Module):
    def __init__(self, module, group):
        super().__init__()
        self.module, self.group = module, group
        for tensor in [*module.parameters(), *module.buffers()]:
            dist.broadcast(tensor.detach(), group_src=0, group=group)

    def forward(self, *inputs):
        return self.module(*inputs)

    def finish_gradients(self):
        gradients = [each.grad for each in self.module.parameters() if each.grad is not None]
        if not gradients:
            return
        flat = torch.cat([gradient.flatten() for gradient in gradients])
        for bucket in range(flat.numel() // BUCKET_ELEMENTS):  # The mistake: rounds down.
            part = flat[bucket * BUCKET_ELEMENTS : (bucket + 1) * BUCKET_ELEMENTS]
            part /= dist.get_world_size(self.group)
            dist.all_reduce(part, group=self.group)
        for gradient, averaged in zip(gradients, flat.split([each.numel() for each in gradients])):
            gradient.copy_(averaged.view_as(gradient))


def wrap(module, process_group, options):
    return Bucketed(module, process_group)


def after_backward(module):
    module.finish_gradients()
