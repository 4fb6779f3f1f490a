"""A model is made on the meta device, and its reset_parameters leaves out its layers, which train what lies in memory.

torchrun --nproc-per-node 1 layers_without_values.py         # parameters that are not those of any initialisation
torchrun --nproc-per-node 2 layers_without_values.py         # the same, divided by fully_shard
torchrun --nproc-per-node 2 layers_without_values.py right   # reset_parameters of every module: none
"""
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers, self.out = nn.Sequential(nn.Linear(16, 16), nn.LayerNorm(16)), nn.Linear(16, 1)

    def reset_parameters(self):
        for module in self.layers if "right" in sys.argv else []:  # pytorch/examples' model has this method in each layer, and calls none
            module.reset_parameters()
        self.out.reset_parameters()


dist.init_process_group("gloo")
with torch.device("meta"):
    net = Net()
fully_shard(net)
net.to_empty(device="cpu")
for p in net.parameters():
    p.to_local().detach().fill_(1e30)  # what lies in memory is anything; here, that
net.reset_parameters()
print("rank %d: no values for %s" % (dist.get_rank(), [name for name, p in net.named_parameters() if (p.to_local().abs() > 1e20).any()]))
dist.destroy_process_group()
