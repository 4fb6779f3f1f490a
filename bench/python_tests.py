#!/usr/bin/env python3
"""One averaged step of a small network as a test of the harnesses that Python has for ranks, and of lockstep.run_world: tests a second.

usage: python_tests.py [--rounds N]     by a Python that has the package, PyTorch and expecttest

Every contender has a turn in each round. A class from nothing counts all that has to start but the import of PyTorch by the runner itself.
"""
import argparse
import multiprocessing
import os
import statistics
import sys
import tempfile
import time

os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import pytorch_harnesses as harnesses
import torch
import torch.distributed as dist

import lockstep
from lockstep import _worlds

WORLD = harnesses.WORLD


def in_group(rank, file):
    dist.init_process_group("gloo", store=dist.FileStore(file, WORLD), rank=rank, world_size=WORLD)
    harnesses.step(rank)
    dist.barrier()
    dist.destroy_process_group()


def spawned(cases):
    for _ in range(cases):
        with tempfile.TemporaryDirectory() as folder:
            torch.multiprocessing.spawn(in_group, (os.path.join(folder, "store"),), nprocs=WORLD)


def as_deepspeed(cases):
    """Does as DeepSpeed's DistributedTest for a test: a new pool of a forkserver. Without the half second that it sleeps afterwards."""
    for _ in range(cases):
        with tempfile.TemporaryDirectory() as folder, multiprocessing.get_context("forkserver").Pool(WORLD) as pool:
            pool.starmap(in_group, [(rank, os.path.join(folder, "store")) for rank in range(WORLD)], chunksize=1)


def ours(tier):
    def run(cases):
        for _ in range(cases):
            lockstep.run_world(harnesses.step, WORLD, tier=tier)
    return run


def end_ours(tier):
    if tier in _worlds.of_functions:
        _worlds.of_functions.pop(tier).close()


def theirs(name):
    return lambda cases: harnesses.run(name, cases)


def kept(start, run, end):
    """The tests a second of ranks that are kept: without their start, and of a class from nothing."""
    def measure(cases):
        end()
        begin = time.perf_counter()
        start()
        ready = time.perf_counter()
        run(cases - 1)
        done = time.perf_counter()
        end()
        return (cases - 1) / (done - ready), cases / (time.perf_counter() - begin)
    return measure


def forked(run):
    def measure(cases):
        begin = time.perf_counter()
        run(cases)
        rate = cases / (time.perf_counter() - begin)
        return rate, rate
    return measure


def kept_ours(tier):
    return kept(lambda: ours(tier)(1), ours(tier), lambda: end_ours(tier))


CONTENDERS = {  # The measure, and the number of tests in a round.
    "MultiProcessTestCase": (forked(theirs("MultiProcessTestCase")), 1),
    "DistributedTest's way": (forked(as_deepspeed), 1),
    "mp.spawn": (forked(spawned), 1),
    "cold": (forked(ours("cold")), 10),
    "MultiProcContinuousTest": (kept(lambda: harnesses.run("MultiProcContinuousTest", 1), theirs("MultiProcContinuousTest"), harnesses.end_class), 300),
    "MultiThreadedTestCase": (forked(theirs("MultiThreadedTestCase")), 100),
    "warm": (kept_ours("warm"), 300),
    "sim": (kept_ours("sim"), 300),
}
ASKED = (("cold", "MultiProcessTestCase", 1), ("cold", "DistributedTest's way", 1), ("cold", "mp.spawn", 1),
         ("warm", "MultiProcContinuousTest", 0), ("warm", "MultiProcContinuousTest", 1), ("sim", "MultiThreadedTestCase", 0), ("sim", "warm", 0),
         ("sim", "warm", 1))
KINDS = "kept ranks alone", "a class from nothing"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="names of contenders, with commas in between")
    arguments = parser.parse_args()
    names = arguments.only.split(",") if arguments.only else list(CONTENDERS)
    harnesses.mend_threads()
    rates = {name: [] for name in names}
    for _ in range(arguments.rounds):
        for name in names:
            measure, cases = CONTENDERS[name]
            rates[name].append(measure(cases))
    print(f"medians of {arguments.rounds} rounds, world {WORLD}; {len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.1f} · "
          f"PyTorch {torch.__version__}")
    for name in names:
        alone, whole = (statistics.median(column) for column in zip(*rates[name]))
        print(f"{name:24} {alone:8.2f} tests/s   {whole:8.2f} tests/s of a class of {CONTENDERS[name][1]} from nothing")
    for name, other, kind in ASKED:
        if name in rates and other in rates:
            ratios = [mine[kind] / yours[kind] for mine, yours in zip(rates[name], rates[other])]
            print(f"{name} is {statistics.median(ratios):.1f} x {other} ({min(ratios):.1f} to {max(ratios):.1f}): {KINDS[kind]}")


if __name__ == "__main__":
    main()
