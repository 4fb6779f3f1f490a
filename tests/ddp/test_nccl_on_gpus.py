#!/usr/bin/env python3
"""Ranks that train on GPUs, their own or a shared one.

usage: test_nccl_on_gpus.py CLASS

It takes a GPU, and the last two classes more than that; see test_nccl.py for the rest.
"""

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from test_nccl import IN_PYTORCH, PEER, Worlds, needs_pytorch, nvidia_folders, run, skip_class, setting  # noqa: E402


class GpuWorlds(Worlds):
    @classmethod
    def setUpClass(cls):
        folders = ":".join(each for each in (nvidia_folders(), os.environ.get("LD_LIBRARY_PATH")) if each)
        cls.variables = {"LD_LIBRARY_PATH": folders} if folders else {}
        if "CUDA_VISIBLE_DEVICES" in os.environ:
            cls.variables["CUDA_VISIBLE_DEVICES"] = os.environ["CUDA_VISIBLE_DEVICES"]
        _, (said,) = run(setting("PROBE"), "gpus", **cls.variables)
        if not said.isdigit():
            skip_class(said)
        cls.gpus = int(said)

    def assert_trained(self, size, results, words):
        """The sum of 1..size, and twice its average, on every rank."""
        total = size * (size + 1) / 2
        numbers = "%.6f..%.6f, %.6f..%.6f, %.6f..%.6f" % ((total,) * 2 + (total / size,) * 4)
        for said, status in results:
            self.assertEqual(status, 0, said)
            self.assertRegex(said, "(?m)^" + words + r" on cuda:\d+: " + numbers.replace(".", r"\.") + "$", said)


class OnGpus(GpuWorlds):

    def test_one_rank_trains_over_nccl(self):
        self.assert_trained(1, self.probe(1, "train=cpu:gloo,cuda:nccl"), "cpu:gloo,cuda:nccl")

    def test_by_default_cuda_tensors_travel_over_nccl(self):
        self.assert_trained(1, self.probe(1, "train="), "cpu:gloo,cuda:nccl")

    def test_a_stream_that_is_held_up_is_late_and_the_host_is_not(self):
        _, (_, said) = run(setting("PROBE"), "load", "hold", **self.variables)
        self.assertRegex(said, r"^late: [\d.]+ ms of 100$")

    def test_ranks_that_share_a_gpu_train_over_nccl(self):
        for size in (2, 4):
            self.assert_trained(size, self.probe(size, "crowd=cpu:gloo,cuda:nccl", share=True), "cpu:gloo,cuda:nccl")

    def test_ranks_that_share_a_gpu_train_over_gloo(self):
        for size in (2, 4):
            self.assert_trained(size, self.probe(size, "train=gloo"), "cpu:gloo,cuda:gloo")

    def test_without_the_variables_for_sharing_nccl_says_so_on_every_rank(self):
        for said, status in self.probe(2, "crowd=nccl"):
            self.assertEqual(status, 1, said)
            self.assertIn("cannot connect over nccl", said)

    def test_communication_overlaps_with_backward(self):
        """Says how much; how much it is to be, no test knows."""
        size = min(self.gpus, 4) if self.gpus > 1 else 2
        for said, status in self.probe(size, "overlap=nccl", share=self.gpus == 1):
            self.assertEqual(status, 0, said)
            self.assertRegex(said, "of a step of 25 M parameters, averages of 10: backward ")
            print(said.splitlines()[-1])

    def test_more_ranks_than_gpus_are_refused_with_both_numbers(self):
        for said, status in self.probe(self.gpus + 1, "train=nccl"):
            self.assertEqual(status, 1, said)
            self.assertRegex(said, r"has %d GPUs? for %d ranks, and NCCL takes one rank a GPU" % (self.gpus, self.gpus + 1))


class OnSeveralGpus(GpuWorlds):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if cls.gpus < 2:
            skip_class("this machine has one GPU")

    def test_a_rank_a_gpu_trains_over_nccl(self):
        self.assert_trained(self.gpus, self.probe(self.gpus, "train=nccl"), "cuda:nccl")


class OnGpusBesidePyTorch(GpuWorlds):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        needs_pytorch()

    def test_sync_batch_norm_is_pytorchs(self):
        for backend in ("gloo", "nccl"):
            theirs = self.result_of(2, [PEER, IN_PYTORCH, "cuda", backend, "0"], share=True)
            ours = self.probe(2, "norm=" + backend, share=True)
            self.assert_normalised_alike(self.normalised(ours), self.normalised(theirs))


if __name__ == "__main__":
    unittest.main(verbosity=2)
