"""The small DDP case of bench/worlds.cpp as a test of each of PyTorch's own distributed harnesses.

Only the Python of .venv-peer can import this file; so do the processes that a harness starts.
"""

import contextlib
import os
import threading
import time
import unittest

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.testing._internal.common_distributed import (
    MultiProcContinuousTest, MultiProcessTestCase, MultiThreadedTestCase)
from torch.testing._internal.distributed.multi_threaded_pg import ThreadLocalWorld

WORLD = 2


def step(rank):
    """One averaged step of the network of bench/worlds.cpp, on its input."""
    torch.set_num_threads(1)
    network = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    replica = DistributedDataParallel(network)
    replica(torch.full((2, 8), float(rank))).sum().backward()


class Processes(MultiProcessTestCase):
    world_size = WORLD

    def setUp(self):
        super().setUp()
        self._spawn_processes()

    def tearDown(self):
        super().tearDown()
        with contextlib.suppress(FileNotFoundError):  # The last of the store's ranks removes it, if it ends well.
            os.remove(self.file_name)

    def test_step(self):
        store = dist.FileStore(self.file_name, WORLD)
        dist.init_process_group("gloo", store=store, rank=self.rank, world_size=WORLD)
        step(self.rank)


class KeptProcesses(MultiProcContinuousTest):
    world_size = WORLD

    @classmethod
    def backend_str(cls):
        return "gloo"

    @classmethod
    def device_type(cls):
        return "cpu"

    def test_step(self):
        step(self.rank)


class Threads(MultiThreadedTestCase):
    world_size = WORLD

    def setUp(self):
        super().setUp()
        self._spawn_threads()

    def test_step(self):
        step(self.rank)


HARNESSES = {"MultiProcessTestCase": Processes, "MultiProcContinuousTest": KeptProcesses,
             "MultiThreadedTestCase": Threads}


def run(harness, cases):
    """The seconds that cases take one after another; raises RuntimeError unless all pass."""
    start = time.perf_counter()
    for _ in range(cases):
        result = unittest.TestResult()
        HARNESSES[harness]("test_step").run(result)
        if not result.wasSuccessful() or result.skipped:
            (_, why), *_ = result.errors + result.failures + result.skipped
            raise RuntimeError(f"the case does not pass under {harness}:\n{why}")
    return time.perf_counter() - start


def end_class():
    """Ends the processes that MultiProcContinuousTest keeps; the next case makes others."""
    KeptProcesses.tearDownClass()
    KeptProcesses._processes_spawned = False  # What unittest never needs: no class is run twice.


def run_class(cases):
    """As run() of MultiProcContinuousTest, from before its processes are made until they have ended."""
    end_class()
    start = time.perf_counter()
    run("MultiProcContinuousTest", cases)
    end_class()
    return time.perf_counter() - start


def mend_threads():
    """Lets the ranks of MultiThreadedTestCase end as they should, and returns their error if they did not.

    PyTorch 2.11.0 ends a group by what a threaded world lacks. A rank dies of it after its test, unseen by
    the harness, and prints so at length in every case; that would be timed too.
    """
    errors = []
    threading.excepthook = lambda died: errors.append(f"{died.exc_type.__name__}: {died.exc_value}")
    try:
        run("MultiThreadedTestCase", 1)
        if not errors:
            return ""
        error = errors[0]
        ThreadLocalWorld.comms = []
        errors.clear()
        run("MultiThreadedTestCase", 1)
    finally:
        threading.excepthook = threading.__excepthook__
    if errors:
        raise RuntimeError(f"the ranks of MultiThreadedTestCase do not end: {errors[0]}")
    return error
