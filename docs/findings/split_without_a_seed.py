"""Each rank holds samples out by random numbers of its own, and another rank trains on them.

torchrun --nproc-per-node 1 split_without_a_seed.py         # samples that are held out, and trained on
torchrun --nproc-per-node 2 split_without_a_seed.py         # ... and of the training's, drawn twice and never in an epoch
torchrun --nproc-per-node 2 split_without_a_seed.py right   # one generator for all ranks
"""
import sys

import torch
import torch.distributed as dist
from torch.utils.data import DistributedSampler, random_split

dist.init_process_group("gloo")
rank = dist.get_rank()
generator = torch.Generator().manual_seed(0 if "right" in sys.argv else rank)  # without one, a seed of each process's own
train, held_out = random_split(range(1000), [900, 100], generator=generator)
drawn = [train[number] for number in DistributedSampler(train)]
of_all = [None] * dist.get_world_size()
dist.all_gather_object(of_all, (drawn, list(held_out)))
trained = [sample for samples, _ in of_all for sample in samples]
both = set(trained) & {sample for _, samples in of_all for sample in samples}
if rank == 0:
    print("held out and trained on: %d; drawn twice in the epoch: %d" % (len(both), len(trained) - len(set(trained))))
dist.destroy_process_group()
