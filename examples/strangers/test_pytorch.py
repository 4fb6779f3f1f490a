"""PyTorch's distributed_test.py, which its wheel contains, in worlds of Lockstep.

    TIER=warm pytest test_pytorch.py -k DistributedDataParallel
"""
import os
import tempfile
import unittest

os.environ.setdefault("BACKEND", "gloo")
os.environ.setdefault("WORLD_SIZE", "4")
os.environ.setdefault("TEMP_DIR", tempfile.mkdtemp())
TIER = os.environ.get("TIER", "cold")

import torch.distributed as dist
from torch.testing._internal.common_distributed import TEST_SKIPS
from torch.testing._internal.common_utils import set_rng_seed
from torch.testing._internal.distributed.distributed_test import DistributedTest, TestDistBackend

import lockstep


def run_on_rank(rank, case, name, file_name):
    self = case(name)
    self.rank, self.file_name = rank, file_name
    set_rng_seed()  # As their harness does: the same on all ranks.
    try:
        getattr(self, name)()
    except SystemExit as ended:  # This is how a rank says that it skips a test.
        why = {skip.exit_code: skip.message for skip in TEST_SKIPS.values()}
        raise unittest.SkipTest(why[ended.code]) from None


class TestInWorlds(TestDistBackend, DistributedTest._DistTestBase):
    world_size = int(os.environ["WORLD_SIZE"])

    def _join_processes(self, function):
        lockstep.run_world(run_on_rank, self.world_size, type(self), self._testMethodName, self.file_name, tier=TIER)

    if TIER == "sim":
        def _barrier(self, *_, **__):  # Theirs counts processes.
            dist.barrier()
