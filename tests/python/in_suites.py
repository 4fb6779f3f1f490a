#!/usr/bin/env python3
"""The shims of examples/strangers, with a fixed part of each stranger's suite.

usage: in_suites.py PYTHON [TEST ...]     PYTHON is of an environment that has the package, PyTorch and pytest; what else it has, runs

DEEPSPEED is the folder of a checkout of DeepSpeed, if there is one.
"""

import os
import shutil
import subprocess
import sys
import unittest

import project

SHIMS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "strangers")
TIERS = "cold", "warm", "sim"


def needs(module):
    has = subprocess.run([project.PYTHON, "-c", f"import {module}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode == 0
    if not has:
        raise unittest.SkipTest(f"{module} is not installed beside the package")


class Suites(project.Project):
    def shim(self, name):
        shutil.copy(os.path.join(SHIMS, name), self.folder)

    def assert_passed(self, said, results, names):
        self.assertEqual({name: kind for name, (kind, _) in results.items()}, dict.fromkeys(names, "passed"), said)

    def test_of_pytorch(self):
        needs("expecttest")
        self.shim("test_pytorch.py")
        names = ["test_DistributedDataParallelCPU", "test_ddp_unused_params_rebuild_buckets_exception", "test_all_gather_object_default_pg",
                 "test_barrier_timeout_full_group"]
        for tier in TIERS:
            mine = [name for name in names if tier != "sim" or "timeout" not in name]  # Simulated groups have no timeouts.
            _, said, results = self.pytest(*(f"test_pytorch.py::TestInWorlds::{name}" for name in mine), TIER=tier, WORLD_SIZE="3")
            self.assertEqual(set(results), set(mine), said)
            self.assertLessEqual({kind for kind, _ in results.values()}, {"passed", "skipped"}, said)
            self.assertEqual(results["test_DistributedDataParallelCPU"][0], "passed", said)
        self.assert_nothing_is_left()

    def test_of_accelerate(self):
        needs("accelerate")
        self.shim("test_accelerate.py")
        names = [f"test_accelerate[world2-{name}]" for name in ("test_ops.test_gather", "test_ops.test_reduce_mean", "test_script.test_trigger",
                                                                "test_sync.test_distributed_sync")]
        for tier in TIERS:
            _, said, results = self.pytest(*(f"test_accelerate.py::{name}" for name in names), "--lockstep-tier", tier)
            self.assert_passed(said, results, names)
        self.assert_nothing_is_left()

    def test_of_deepspeed(self):
        checkout = os.environ.get("DEEPSPEED")
        if not checkout:
            raise unittest.SkipTest("DEEPSPEED names no checkout of DeepSpeed")
        tests = os.path.join(checkout, "tests")
        path = os.pathsep.join([checkout, tests, SHIMS])
        for tier in TIERS:
            status, said, _ = self.pytest("-p", "deepspeed_in_worlds", os.path.join(tests, "unit", "runtime", "utils", "test_partition.py"), "-k",
                                          "TestPartitionedTensor", TIER=tier, DS_ACCELERATOR="cpu", PYTHONPATH=path)
            self.assertEqual(status, 0, said)
            self.assert_says(said, "3 passed")
        self.assert_nothing_is_left()


if __name__ == "__main__":
    project.PYTHON = os.path.abspath(sys.argv.pop(1))
    unittest.main()
