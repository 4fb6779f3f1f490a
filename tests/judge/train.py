"""A training under torchrun, which knows nothing of a recorder."""

import torch.distributed as dist

from one_process import train

dist.init_process_group("gloo")
train("float32", dist.get_rank(), dist.get_world_size())
dist.destroy_process_group()
