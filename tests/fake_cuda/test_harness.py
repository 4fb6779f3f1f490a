#!/usr/bin/env python3
"""The harness's own backends of CUDA tensors, on the fake CUDA libraries.

usage: test_harness.py Harness

It takes what test_fake_cuda.py takes, and LOCKSTEP, the program.
"""

import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "ddp")]
from test_nccl import environment, nvidia_folders  # noqa: E402

DEADLINE_S = 240


class Harness(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not nvidia_folders():
            print("skipped: NVIDIA's libraries are in neither .venv nor .venv-peer: ./lockstep setup --gpu")
            sys.exit(77)

    def run_over(self, *arguments, tier="cold", backend="nccl", **variables):
        with tempfile.TemporaryDirectory() as folder:
            return subprocess.run(
                [os.environ["LOCKSTEP"], "run", *arguments, "--backend", backend, "--tier", tier, "--seed", "7",
                 "--world", "2,3", "--out", folder],
                capture_output=True, text=True, check=False, timeout=DEADLINE_S, cwd=folder,
                env=environment(LD_LIBRARY_PATH=nvidia_folders(), LD_PRELOAD=os.environ["LOCKSTEP_FAKE_CUDA"],
                                **variables))

    def test_a_scenario_is_judged_over_it(self):
        """Each instance has a group of its own, which the backend connects anew and leaves without an error."""
        done = self.run_over("replicas.start_equal", "--cases", "2")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"PASS +[\d.]+s  replicas\.start_equal .* bit-equal +worlds 2-3")

    def test_a_warm_world_is_kept_for_the_next_case(self):
        """And what a case does with its GPU is over when it ends: no thread and no descriptor is left behind."""
        done = self.run_over("replicas.start_equal", "--cases", "12", tier="warm")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"PASS +[\d.]+s  replicas\.start_equal +warm +\d+ cases  bit-equal +worlds 2-3")

    def test_gloo_carries_cuda_tensors(self):
        """One backend of the group has both devices' tensors."""
        for tier in ("cold", "warm"):
            done = self.run_over("replicas.start_equal", "--cases", "4", tier=tier, backend="gloo_cuda")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertRegex(done.stdout, r"PASS +[\d.]+s  replicas\.start_equal +%s +\d+ cases  bit-equal" % tier)

    def test_a_warm_world_that_is_not_made_says_why(self):
        done = self.run_over("replicas.start_equal", "--cases", "1", tier="warm",
                                  LOCKSTEP_FAKE_CUDA_FAULTS="ncclCommInitRankConfig@1=ncclSystemError")
        self.assertNotEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout + done.stderr,
                         r"a warm world of [23] ranks on nccl could not be made: rank [01]: .*NCCL error")

    def test_ranks_that_share_a_gpu_are_set_up_for_the_nccl_that_is_loaded(self):
        """By the names of hosts until 2.29, and from 2.30 on as NCCL has it; the library does not take the other."""
        for version in ("22809", "23000"):
            done = self.run_over("replicas.start_equal", "--cases", "1", LOCKSTEP_FAKE_CUDA_DEVICES="1",
                                      LOCKSTEP_FAKE_CUDA_NCCL=version)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn("share 1 GPU", done.stdout)

    def test_an_error_of_nccl_is_the_ranks_and_not_the_end_of_its_process(self):
        done = self.run_over("replicas.start_equal", "--cases", "2",
                                  LOCKSTEP_FAKE_CUDA_FAULTS="ncclAllReduce@1=ncclSystemError")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("NCCL error", done.stdout)
        self.assertNotIn("SIG", done.stdout)

    def test_the_product_is_not_loaded_for_it(self):
        done = self.run_over("replicas.start_equal", "--cases", "1", LD_DEBUG="files")
        self.assertIn("liblockstep_harness_nccl.so", done.stderr)
        self.assertNotIn("liblockstep_nccl.so", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
