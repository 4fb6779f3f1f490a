"""One rank loads an earlier state of PowerSGD between two passes: PyTorch compares nothing.

torchrun --nproc-per-node 2 power_sgd_loaded_on_one_rank.py         # gradients are lost, or counted twice, without a word
torchrun --nproc-per-node 2 power_sgd_loaded_on_one_rank.py early   # its state is of a plain pass: both ranks wait until the timeout
torchrun --nproc-per-node 2 power_sgd_loaded_on_one_rank.py right   # every rank loads: nothing is lost

What the passes gave and what the residuals still hold is, together, what the ranks put in. Exits 1 where it is not.
"""
import datetime
import pickle
import sys

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook

PASSES, SAVED, LOADED = 6, 2 if "early" not in sys.argv else 1, 4

dist.init_process_group("gloo")
group = dist.new_group(timeout=datetime.timedelta(seconds=5))
rank, world_size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(3)
model = torch.nn.Linear(8, 8, bias=False)
ddp = torch.nn.parallel.DistributedDataParallel(model, process_group=group)
state = powerSGD_hook.PowerSGDState(group, start_powerSGD_iter=2, min_compression_rate=1)
ddp.register_comm_hook(state, powerSGD_hook.powerSGD_hook)


def average(tensor):
    total = tensor.clone()
    dist.all_reduce(total)
    return total / world_size


def kept():
    return average(state.error_dict[0].view(8, 8)) if 0 in state.error_dict else torch.zeros(8, 8)


torch.manual_seed(rank)
balance = torch.zeros(8, 8)  # what went in less what came out
for step in range(PASSES):
    if step == SAVED:
        saved = pickle.dumps(state)
    if step == LOADED and (rank == 1 or "right" in sys.argv):
        loaded = pickle.loads(saved)
        for name in set(powerSGD_hook.PowerSGDState.__slots__) - {"process_group"}:
            setattr(state, name, getattr(loaded, name))
    if step == LOADED and "right" in sys.argv:
        balance = balance_then
    inputs = torch.randn(4, 8)
    alone = torch.autograd.grad(model(inputs).square().mean(), model.weight)[0]
    model.zero_grad()
    ddp(inputs).square().mean().backward()
    if step == SAVED:
        balance_then = balance.clone()
    balance += average(alone) - model.weight.grad
missing = float((balance - kept()).norm())
print(f"rank {rank}: of gradients of size {float(average(alone).norm()):.3f} a pass, {missing:.3g} is missing")
dist.destroy_process_group()
sys.exit(missing > 1e-5)
