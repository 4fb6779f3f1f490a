"""A layer of BatchNorm that normalises over the batches of all ranks, in torch operations."""

import torch
import torch.distributed as dist
from torch.distributed.nn.functional import all_reduce


class BatchNorm(torch.nn.BatchNorm1d):
    group = None

    def _check_input_dim(self, x):
        pass

    def over_all_ranks(self, sums):
        return all_reduce(sums, group=self.group)

    def forward(self, x):
        if not self.training and self.track_running_stats:
            return super().forward(x)
        whole = x if x.dtype == torch.float64 else x.float()  # Halves are summed as floats.
        return self.normalised(whole).to(x.dtype)

    def normalised(self, x):
        axes = [axis for axis in range(x.dim()) if axis != 1]
        shape = [1, -1] + [1] * (x.dim() - 2)
        count = x.new_tensor([float(x.numel() // x.shape[1])])
        sums = self.over_all_ranks(torch.cat([x.sum(axes), count]))
        average = sums[:-1] / sums[-1]
        centred = x - average.view(shape)
        squares = self.over_all_ranks((centred * centred).sum(axes))
        variance = squares / sums[-1]
        if self.track_running_stats:
            with torch.no_grad():
                self.num_batches_tracked += 1
                weight = 1.0 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
                unbiased = squares / (sums[-1] - 1)
                self.running_mean.mul_(1 - weight).add_(average.to(self.running_mean.dtype), alpha=weight)
                self.running_var.mul_(1 - weight).add_(unbiased.to(self.running_var.dtype), alpha=weight)
        y = centred * torch.rsqrt(variance + self.eps).view(shape)
        return y * self.weight.view(shape) + self.bias.view(shape) if self.affine else y


def sync_batch_norm(channels, process_group, options):
    layer = BatchNorm(channels, eps=options["eps"], momentum=options["momentum"], affine=options["affine"],
                      track_running_stats=options["track_running_stats"])
    layer.group = process_group
    assert dist.get_world_size(process_group) > 0
    return layer
