"""After a group that some ranks make among themselves, the next group of all ranks never comes to be in PyTorch 2.15.

torchrun --nproc-per-node 2 group_after_a_local_one.py         # 2.11 and 2.12: "made"; 2.15: both ranks wait for ever, whatever the timeout
torchrun --nproc-per-node 2 group_after_a_local_one.py right   # the first group is made by all
"""
import faulthandler
import sys

import torch
import torch.distributed as dist

faulthandler.dump_traceback_later(20, exit=True)
dist.init_process_group("gloo")
if "right" in sys.argv:
    dist.new_group([0])
elif dist.get_rank() == 0:
    dist.new_group([0], use_local_synchronization=True)
everyone = dist.new_group()
print(f"PyTorch {torch.__version__}, rank {dist.get_rank()}: made {everyone.group_name}")
dist.destroy_process_group()
