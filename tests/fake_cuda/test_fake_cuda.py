#!/usr/bin/env python3
"""Worlds over LibTorch's own ProcessGroupNCCL, where a library replaces CUDA and NCCL: no GPU is needed.

usage: test_fake_cuda.py CLASS

It takes NVIDIA's libraries, which libtorch_cuda needs, in .venv or .venv-peer; without them it ends with 77, which
ctest reports as skipped. ctest sets LOCKSTEP_FAKE_CUDA, the library, and LOCKSTEP_FAKE_CUDA_PROBE, the program
whose arguments are what a rank does (fake_cuda_probe.cpp).
"""

import collections
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "ddp")]
from test_nccl import environment, nvidia_folders  # noqa: E402

DEADLINE_S = 60
BOTH = "cpu:gloo,cuda:nccl"

# status; {verb: [(milliseconds, what it said)]}; its lines in the journal, without the time.
Rank = collections.namedtuple("Rank", "status said journal text")


def run(size, *script, faults=None, each=None, **variables):
    """A world of `size` ranks, each of which does what the script says; what became of each."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    with tempfile.TemporaryDirectory() as folder:
        processes = []
        try:
            for rank in range(size):
                processes.append(subprocess.Popen(
                    [os.environ["LOCKSTEP_FAKE_CUDA_PROBE"], *script], text=True, stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT, env=environment(
                        **variables, **(each(rank) if each else {}), LD_LIBRARY_PATH=nvidia_folders(),
                        LD_PRELOAD=os.environ["LOCKSTEP_FAKE_CUDA"],
                        LOCKSTEP_FAKE_CUDA_JOURNAL=os.path.join(folder, str(rank)),
                        LOCKSTEP_FAKE_CUDA_FAULTS=(faults or {}).get(rank, ""), RANK=str(rank), WORLD_SIZE=str(size),
                        LOCAL_RANK=str(rank), MASTER_ADDR="127.0.0.1", MASTER_PORT=port)))
            deadline = time.monotonic() + DEADLINE_S
            texts = []
            for process in processes:  # One that stalls continues when those before it have ended.
                try:
                    texts.append(process.communicate(timeout=max(deadline - time.monotonic(), 0.1))[0])
                except subprocess.TimeoutExpired:
                    process.kill()
                    texts.append(process.communicate()[0] + "\n(killed: it did not end)")
        finally:
            for process in processes:
                process.kill()
                process.wait()
        ranks = []
        for rank, (process, text) in enumerate(zip(processes, texts)):
            said = collections.defaultdict(list)
            for verb, took, words in re.findall(r"(?m)^(\w+) \[(\d+) ms\] ?(.*)$", text):
                said[verb].append((int(took), words))
            try:
                with open(os.path.join(folder, str(rank)), encoding="utf-8") as file:
                    journal = [line.rstrip("\n").split(" ", 1)[1] for line in file]
            except FileNotFoundError:
                journal = []
            ranks.append(Rank(process.returncode, said, journal, text))
        return ranks


def of(rank, word):
    """The rest of the journal's lines that begin with this word."""
    return [line[len(word) + 1:] for line in rank.journal if line.split(" ", 1)[0] == word]


def range_of(*numbers):
    return " ".join("%.6f..%.6f" % (number, number) for number in numbers)


class Worlds(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        if not nvidia_folders():
            print("skipped: NVIDIA's libraries are not installed: ./lockstep setup --gpu, or --peer, does it")
            sys.exit(77)

    def assert_all_ended_well(self, ranks):
        for number, rank in enumerate(ranks):
            self.assertEqual(rank.status, 0, "rank %d\n%s\n%s" % (number, rank.text, "\n".join(rank.journal)))

    def assert_nothing_spins(self, rank):
        """Every operation that began on a device has ended, or was aborted."""
        begun = sorted(of(rank, "begins"))
        self.assertEqual(begun, sorted(of(rank, "ends") + of(rank, "is_aborted")), rank.text)


class Healthy(Worlds):
    def test_it_stands_in_for_all_that_libtorch_asks_of_cuda_and_nccl(self):
        """A function that it lacked would be the real libraries', which know nothing of its streams."""
        def symbols(which, path):
            lines = subprocess.run(["nm", "-D", which, path], check=True, stdout=subprocess.PIPE, text=True).stdout
            return {line.split()[-1].split("@")[0] for line in lines.splitlines()}
        has = symbols("--defined-only", os.environ["LOCKSTEP_FAKE_CUDA"])
        libraries = os.environ["LOCKSTEP_FAKE_CUDA_LIBTORCH"].split(":")
        wanted = {name for library in libraries for name in symbols("--undefined-only", library)
                  if re.match(r"(__)?cuda[A-Z]|nccl[A-Z]", name)}
        self.assertGreater(len(wanted), 90)
        self.assertEqual(sorted(wanted - has), [])

    def test_collectives_and_gradients_are_right_on_every_rank(self):
        for size in (1, 2, 4):
            ranks = run(size, "init=" + BOTH, "sum", "ddp", "steps=1", "look", "steps=2", "look", "leave")
            self.assert_all_ended_well(ranks)
            average = (size + 1) / 2
            for number, rank in enumerate(ranks):
                self.assertEqual(rank.said["init"][0][1], "%s on cuda:%d" % (BOTH, number))
                self.assertEqual(rank.said["sum"][0][1], range_of(size * average))
                first, third = (words for _, words in rank.said["look"])
                self.assertEqual(first, range_of(*(average * i for i in range(1, 7))))
                self.assertEqual(third, range_of(*(3 * average * i for i in range(1, 7))))
                self.assert_nothing_spins(rank)

    def test_nccl_alone_carries_what_ranks_say_to_each_other_too(self):
        ranks = run(2, "init=nccl", "sum", "ddp", "steps=3", "look", "leave")
        self.assert_all_ended_well(ranks)
        for rank in ranks:
            self.assertEqual(rank.said["look"][0][1], range_of(*(4.5 * i for i in range(1, 7))))

    def test_the_host_waits_nowhere_in_a_step(self):
        for rank in run(2, "init=" + BOTH, "ddp", "steps=6", "look", "leave"):
            steps, is_in_step = [], False
            for line in rank.journal:
                if line == "mark step":
                    steps.append([])
                    is_in_step = True
                elif line == "mark step is over":
                    is_in_step = False
                elif is_in_step:
                    steps[-1].append(line)
            self.assertEqual(len(steps), 6)
            for step in steps:
                self.assertEqual([line for line in step if line.startswith("host_waits")], [])
                self.assertTrue([line for line in step if line.startswith("issues") and "ncclAllReduce" in line], step)
            self.assertTrue(of(rank, "host_waits"))  # That they are noticed, later, when results are looked at.

    def test_a_rank_touches_no_gpu_but_its_own(self):
        """Though the program never said which is current, as it should."""
        for number, rank in enumerate(run(4, "init=" + BOTH, "sum", "ddp", "steps=3", "check", "look", "leave")):
            self.assertEqual(of(rank, "touches"), ["device %d" % number])

    def test_instances_of_one_group_are_communicators_of_their_own_in_one_order(self):
        ranks = run(2, "init=" + BOTH, "ddp", "ddp", "ddp", "steps=3", "look", "leave")
        self.assert_all_ended_well(ranks)
        issued = [of(rank, "issues") for rank in ranks]
        self.assertEqual(issued[0], issued[1])
        self.assertEqual({line.split(".", 1)[0] for line in issued[0] if "ncclAllReduce" in line},
                         {"comm0", "comm1", "comm2"})
        for rank in ranks:
            self.assertEqual(rank.said["look"][0][1], range_of(*[4.5 * i for i in range(1, 7)] * 3))

    def test_a_rank_that_leaves_in_peace_aborts_when_its_own_work_is_over_and_all_have_come(self):
        for size in (1, 2, 4):
            ranks = run(size, "init=" + BOTH, "ddp", "steps=3", "leave")
            self.assert_all_ended_well(ranks)
            for rank in ranks:
                self.assertEqual(of(rank, "ncclCommAbort"), ["comm0"])
                self.assertEqual(of(rank, "is_aborted"), [])
                self.assert_nothing_spins(rank)

    def test_a_rank_that_leaves_in_peace_takes_no_bytes_along_that_a_peer_still_waits_for(self):
        ranks = run(2, "init=" + BOTH, "sum", "leave", faults={1: "ncclAllReduce@2=late"})
        self.assert_all_ended_well(ranks)
        for rank in ranks:
            self.assertEqual(rank.said["sum"][0][1], range_of(3))
            self.assertEqual(of(rank, "loses"), [])

    def test_shut_down_by_the_program_it_is_finalized_and_destroyed_and_aborted_by_nobody(self):
        ranks = run(2, "init=" + BOTH, "ddp", "steps=3", "shut", "leave")
        self.assert_all_ended_well(ranks)
        for rank in ranks:
            self.assertEqual([of(rank, "ncclComm" + end) for end in ("Finalize", "Destroy", "Abort")],
                             [["comm0"], ["comm0"], []])

    def test_by_default_nccl_is_taken_and_connects_at_the_first_tensor(self):
        ranks = run(2, "init=", "sum", "ddp", "steps=2", "look", "leave")
        self.assert_all_ended_well(ranks)
        for rank in ranks:
            self.assertEqual(rank.said["init"][0][1].split(" on ")[0], BOTH)
            self.assertEqual(rank.said["look"][0][1], range_of(*(3.0 * i for i in range(1, 7))))
            first = rank.journal.index("mark begins sum")
            self.assertFalse([line for line in rank.journal[:first] if line.startswith(("nccl", "touches"))])

    def test_ranks_on_one_gpu_are_refused_unless_they_say_that_they_mean_it(self):
        one = {"LOCKSTEP_FAKE_CUDA_DEVICES": "1"}
        for rank in run(2, "init=" + BOTH, **one):
            self.assertIn("has 1 GPU for 2 ranks, and NCCL takes one rank a GPU", rank.said["init"][0][1])
        for rank in run(2, "crowd=2", "init=" + BOTH, **one):
            self.assertRegex(rank.said["init"][0][1], r"^CommunicationError: .*cannot connect over nccl: NCCL error ")
            self.assertEqual(len(of(rank, "not_connected")), 1)
        ranks = run(2, "crowd=2", "init=" + BOTH, "ddp", "steps=2", "look", "leave",
                     each=lambda rank: {"NCCL_HOSTID": "rank%d" % rank}, **one)
        self.assert_all_ended_well(ranks)
        for rank in ranks:
            self.assertEqual(rank.said["look"][0][1], range_of(*(3.0 * i for i in range(1, 7))))


if __name__ == "__main__":
    unittest.main(verbosity=2)
