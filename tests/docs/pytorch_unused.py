"""Prints the gradients that PyTorch's DDP leaves where one parameter got none: run by .venv-peer's Python, prints JSON.

{"False": [gradients of rank 0, of rank 1], "True": ...} by gradient_as_bucket_view: the distinct values that a rank has over
each choice of the unused parameter, in one bucket and in a bucket for each.
"""

import json
import os
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel

WORLD = 2
NAMES = "abc"


class Sum(torch.nn.Module):
    def __init__(self):
        super().__init__()
        for name in NAMES:
            self.register_parameter(name, torch.nn.Parameter(torch.zeros(1)))

    def forward(self, factor, unused):
        return sum(getattr(self, name) * factor for name in NAMES if name != unused)


def gradients(rank, is_view):
    values = set()
    for unused in NAMES:
        for cap_mb in (25, 1e-6):
            module = Sum()
            wrapped = DistributedDataParallel(module, bucket_cap_mb=cap_mb, gradient_as_bucket_view=is_view)
            wrapped(torch.tensor([rank + 1.0]), unused).sum().backward()
            values |= {parameter.grad.item() for name, parameter in module.named_parameters() if name != unused}
    return sorted(values)


def train(rank, folder):
    dist.init_process_group("gloo", init_method="file://" + os.path.join(folder, "store"), rank=rank, world_size=WORLD)
    found = {str(is_view): gradients(rank, is_view) for is_view in (False, True)}
    with open(os.path.join(folder, str(rank)), "w", encoding="utf-8") as file:
        json.dump(found, file)
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        mp.spawn(train, (place,), WORLD)
        of_rank = []
        for each in range(WORLD):
            with open(os.path.join(place, str(each)), encoding="utf-8") as written:
                of_rank.append(json.load(written))
        json.dump({key: [found[key] for found in of_rank] for key in of_rank[0]}, sys.stdout)
