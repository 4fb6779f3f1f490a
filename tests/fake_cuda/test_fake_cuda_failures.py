#!/usr/bin/env python3
"""Checks failures in worlds over LibTorch's own ProcessGroupNCCL, as test_fake_cuda.py runs them.

usage: test_fake_cuda_failures.py CLASS
"""

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from test_fake_cuda import BOTH, Worlds, of, run  # noqa: E402


class Failing(Worlds):
    TRAINS = ("init=" + BOTH, "ddp", "steps=3")

    def errors(self, rank):
        return [words for said in rank.said.values() for _, words in said if words.startswith("CommunicationError")]

    def assert_reported_once(self, rank, sentence):
        """One CommunicationError, with this; and it ended unasked, with nothing left on its device."""
        self.assertEqual(rank.status, 1, rank.text)
        error, = self.errors(rank)
        self.assertRegex(error, sentence)
        self.assert_nothing_spins(rank)
        self.assertEqual(of(rank, "ncclCommDestroy"), [])

    def test_a_peer_that_is_killed_is_an_error_of_the_network_on_every_survivor(self):
        ranks = run(4, "timeout=60000", *self.TRAINS, "2:die", "steps=2", "check", "leave")
        self.assertEqual(ranks[2].status, -9)
        for rank in ranks[:2] + ranks[3:]:
            self.assert_reported_once(rank, "rank . reported|NCCL error: remote process|NCCL aborted its operations after")
            self.assertEqual(of(rank, "ncclCommAbort"), ["comm0"])

    def test_over_nvlink_where_nobody_notices_the_timeout_ends_it(self):
        ranks = run(3, "timeout=4000", *self.TRAINS, "2:die", "steps=2", "check", "leave",
                     LOCKSTEP_FAKE_CUDA_LINK="nvlink")
        for rank in ranks[:2]:
            self.assert_reported_once(rank, "no answer from a peer within the timeout of 4000 ms")

    def test_a_peer_that_stalls_is_an_error_at_the_timeout(self):
        ranks = run(2, "timeout=4000", *self.TRAINS, "1:stall", "0:steps=2", "0:check", "leave")
        self.assert_reported_once(ranks[0], "no answer from a peer within the timeout of 4000 ms")

    def test_an_all_reduce_that_never_ends_is_aborted(self):
        ranks = run(2, "timeout=4000", *self.TRAINS, "steps=2", "check", "leave", faults={1: "ncclAllReduce@12=never"},
                     LOCKSTEP_FAKE_CUDA_LINK="nvlink")
        for rank in ranks:
            self.assert_reported_once(rank, "no answer from a peer within the timeout of 4000 ms")

    def test_a_host_that_waits_for_its_device_is_freed_by_the_watchdog_ten_seconds_later(self):
        ranks = run(2, "timeout=2000", *self.TRAINS, "1:stall", "0:steps=1", "0:look", "0:check", "0:leave",
                     LOCKSTEP_FAKE_CUDA_LINK="nvlink")
        self.assert_reported_once(ranks[0], "NCCL aborted its operations, since one of them passed its timeout")
        self.assertIn("Watchdog caught collective operation timeout", ranks[0].text)
        self.assertIn("check", ranks[0].said)

    def test_a_peer_that_throws_is_reported_by_its_rank(self):
        for link in ("network", "nvlink"):
            ranks = run(2, "timeout=60000", *self.TRAINS, "1:throw", "0:steps=2", "0:check", "leave",
                         LOCKSTEP_FAKE_CUDA_LINK=link)
            self.assert_reported_once(ranks[0], "rank 1 reported: it left its training with an exception")
            self.assertEqual(ranks[1].said["throw"][0][1], "threw: this rank has had enough")

    def test_an_asynchronous_error_reaches_all(self):
        ranks = run(2, "timeout=50000", *self.TRAINS, "steps=2", "check", "leave",
                     faults={1: "ncclAllReduce@12=async:ncclSystemError"}, LOCKSTEP_FAKE_CUDA_LINK="nvlink")
        self.assert_reported_once(ranks[1], "NCCL error: unhandled system error|NCCL aborted its operations after an error")
        self.assert_reported_once(ranks[0], "rank 1 reported: .*(NCCL error: unhandled|NCCL aborted)")

    def test_a_collective_that_nccl_refuses_reaches_all(self):
        ranks = run(2, "timeout=50000", *self.TRAINS, "steps=2", "check", "leave",
                     faults={1: "ncclAllReduce@12=ncclSystemError"}, LOCKSTEP_FAKE_CUDA_LINK="nvlink")
        self.assert_reported_once(ranks[1], "NCCL error in: .* unhandled system error")
        self.assert_reported_once(ranks[0], "rank 1 reported: .*NCCL error in: .* unhandled system error")

    def test_a_rank_that_takes_the_store_along_is_missed_long_before_the_timeout(self):
        ranks = run(2, "timeout=600000", *self.TRAINS, "0:die", "steps=2", "check", "leave",
                     LOCKSTEP_FAKE_CUDA_LINK="nvlink")
        self.assert_reported_once(ranks[1], "the store of the group is gone, and with it, it seems, the rank that served it")

    def test_a_gpu_that_is_lost_is_reported_on_all_and_ends_no_process(self):
        """At whatever call it is noticed; a rank that leaves does not wait for work that is over with its GPU."""
        for fault in ("cudaEventQuery@40", "cudaMemcpyAsync@20", "cudaMemcpyAsync@41", "cudaLaunchKernel@12",
                      "cudaEventRecord@25", "cudaStreamWaitEvent@30"):
            ranks = run(2, "timeout=600000", *self.TRAINS, "steps=3", "check", "leave",
                         faults={1: fault + "=cudaErrorIllegalAddress"}, LOCKSTEP_FAKE_CUDA_LINK="nvlink")
            with self.subTest(fault):
                self.assertEqual(len(of(ranks[1], "fault")), 1)
                self.assertEqual(ranks[1].status, 1, ranks[1].text)
                self.assertIn("CUDA error: an illegal memory access", ranks[1].text)
                self.assert_nothing_spins(ranks[1])
                self.assert_reported_once(ranks[0], "rank 1 reported: .*CUDA error: an illegal memory access")


class Connecting(Worlds):
    def assert_cannot(self, ranks, sentence, verb="init"):
        for rank in ranks:
            self.assertEqual(rank.status, 1, rank.text)
            self.assertRegex(rank.said[verb][-1][1], "^CommunicationError: .*" + sentence)

    def test_a_rank_that_never_connects_is_an_error_on_all_at_the_timeout(self):
        ranks = run(2, "timeout=3000", "init=" + BOTH, "leave", faults={1: "ncclCommInitRankConfig@1=never"})
        self.assert_cannot(ranks, r"cannot connect over nccl: not all ranks have connected over NCCL within \d+ ms")

    def test_so_is_one_that_dies_connecting(self):
        ranks = run(3, "timeout=3000", "init=" + BOTH, "leave", faults={1: "ncclCommInitRankConfig@1=kill"})
        self.assertEqual(ranks.pop(1).status, -9)
        self.assert_cannot(ranks, r"cannot connect over nccl: not all ranks have connected over NCCL within \d+ ms")

    def test_one_that_cannot_connect_reports_why_and_the_others_do_not_wait(self):
        ranks = run(3, "timeout=100000", "init=" + BOTH, "leave",
                     faults={1: "ncclCommInitRankConfig@1=ncclSystemError"})
        self.assert_cannot(ranks, "rank 1 cannot connect over nccl: NCCL error in: .*unhandled system error")

    def test_at_the_first_tensor_and_for_another_instance_connecting_has_a_deadline_too(self):
        ranks = run(2, "timeout=3000", "init=", "ddp", "leave", faults={1: "ncclCommInitRankConfig@1=never"})
        self.assert_cannot(ranks, "not all ranks have connected over NCCL within 3000 ms", "ddp")
        ranks = run(2, "timeout=3000", "init=" + BOTH, "ddp", "ddp", "leave",
                     faults={0: "ncclCommInitRankConfig@2=never"})
        self.assert_cannot(ranks, "connecting of instance 1 on its group .*not all ranks have connected", "ddp")


if __name__ == "__main__":
    unittest.main(verbosity=2)
