"""DeepSpeed's `DistributedTest`, and what projects have copied from it, in worlds of Lockstep: a plugin of pytest.

In the folder `tests` of a checkout of DeepSpeed:

    DS_ACCELERATOR=cpu PYTHONPATH=..:.:FOLDER_OF_THIS_FILE TIER=warm pytest -p deepspeed_in_worlds unit/runtime/test_ds_initialize.py
"""
import os

import deepspeed
import torch.distributed as dist
from deepspeed.comm.torch import build_shm_op
from deepspeed.utils import groups
from unit.common import DistributedExec, get_master_port

import lockstep


def run_on_rank(rank, test, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port)  # For tests that make their group themselves.
    groups._WORLD_GROUP = None  # Kept ranks close the groups of a test behind it, and DeepSpeed keeps this one.
    if test.init_distributed:
        deepspeed.init_distributed(dist_backend="gloo")  # Takes the default group that is there.
    else:
        dist.destroy_process_group()
    test.run(**test._fixture_kwargs)


def launch(self, request, world_size):
    for size in [world_size] if isinstance(world_size, int) else world_size:
        os.environ["LOCAL_SIZE"] = str(size)  # DeepSpeed counts this as the number of devices.
        lockstep.run_world(run_on_rank, size, self, get_master_port(), tier=os.environ.get("TIER", "cold"))


DistributedExec._launch_with_file_store = launch
build_shm_op()  # Once, and here: each rank would compile it.
