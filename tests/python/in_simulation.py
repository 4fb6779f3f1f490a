#!/usr/bin/env python3
"""Simulated ranks: each feature of torch.distributed beside forked ranks, timeouts in virtual time, and what ranks share.

usage: in_simulation.py PYTHON [TEST ...]     PYTHON is of an environment that has the package, PyTorch, pytest and pytest-xdist
"""

import os
import sys
import unittest

import project

HERE = os.path.dirname(os.path.abspath(__file__))
PARTS = 4  # Of the features, each of which has the time of one run.

FEATURES = """
import features, lockstep, os, pytest, uuid
from pathlib import Path

CASES = [(function.__name__, forked, simulated) for _, functions, forked, simulated in features.ROWS for function in functions]
CASES = CASES[int(os.environ["PART"])::int(os.environ["PARTS"])]

@pytest.mark.parametrize("name, forked, simulated", CASES, ids=[name for name, _, _ in CASES])
def test_is_as_in_forked_ranks(name, forked, simulated):
    os.environ["STORE"] = uuid.uuid4().hex
    seen = {}
    for tier, says in ("cold", forked), ("sim", simulated):
        ends = seen[tier] = lockstep.run_world(features.run, features.WORLD, name, tier=tier)
        for kind, what in ends:
            assert (kind, says == "yes") == ("value", True) or kind == "throws" and says in what, (tier, kind, what)
    if forked == simulated == "yes":
        for rank, (one, other) in enumerate(zip(seen["cold"], seen["sim"])):
            assert one == other, f"rank {rank}"

@pytest.mark.skipif(features.RELEASE != (2, 11), reason="the page is about PyTorch 2.11")
def test_the_page_says_so():
    assert "\\n".join(features.table()) in Path(os.environ["PAGE"]).read_text(encoding="utf-8")
"""

# The longest wait is an hour, in virtual time.
TIMEOUTS = """
import datetime, time
import lockstep, pytest, torch, torch.distributed as dist

HOUR = datetime.timedelta(hours=1)

@pytest.fixture(autouse=True)
def of_time():
    began = time.monotonic()
    yield
    assert time.monotonic() - began < 600

@lockstep.world(3)
def test_wait(rank):
    if rank == 0:
        with pytest.raises(RuntimeError, match="timed out after 3600000 ms, waiting for collective #0, allreduce of 3 float32; ranks 1, 2 have not come"):
            dist.all_reduce(torch.ones(3), async_op=True).wait(HOUR)

@lockstep.world(3)
@pytest.mark.parametrize("wait_all_ranks", [False, True])
def test_monitored_barrier(rank, wait_all_ranks):
    if rank != 1:
        with pytest.raises(RuntimeError, match="timed out after 3600000 ms, waiting for collective #0, monitoredBarrier; rank 1 has not come"):
            dist.monitored_barrier(timeout=HOUR, wait_all_ranks=wait_all_ranks)

@lockstep.world(3)
def test_timeout_of_a_group(rank):
    group = dist.new_group([0, 2], timeout=HOUR)
    if rank == 0:
        with pytest.raises(RuntimeError, match="timed out after 3600000 ms, waiting for collective #0 of the group .*, barrier; rank 2 has not come"):
            dist.barrier(group)
        with pytest.raises(RuntimeError, match="timed out after 3600000 ms, waiting for recv of 1 float32 from rank 1"):
            dist.recv(torch.ones(1), 2, group)

@lockstep.world(2)
def test_timeout_of_the_default_group(rank):
    store = dist.distributed_c10d._get_default_store()
    dist.destroy_process_group()
    dist.init_process_group("gloo", rank=rank, world_size=2, store=dist.PrefixStore("again", store), timeout=HOUR)
    if rank == 0:
        with pytest.raises(RuntimeError, match="timed out after 3600000 ms, waiting for collective .*, broadcast of 1 float32 from rank 0; rank 1 has not come"):
            dist.broadcast(torch.ones(1), 0)

@lockstep.world(2)
def test_a_rank_that_is_late_in_virtual_time(rank):
    store = dist.distributed_c10d._get_default_store()
    if rank == 0:
        with pytest.raises(dist.DistStoreError):
            store.wait(["nobody sets it"], HOUR)
    work = dist.all_reduce(total := torch.ones(1), async_op=True)
    if rank == 1:
        with pytest.raises(RuntimeError, match="timed out after 60000 ms"):
            work.wait(datetime.timedelta(minutes=1))
    work.wait()
    assert total.item() == 2

@lockstep.world(2)
def test_the_next_one():
    dist.barrier()
"""
FOR_EVER = """
import lockstep, torch, torch.distributed as dist

@lockstep.world(3)
def test_mesh(rank):
    mesh = dist.init_device_mesh("cpu", (3,))
    if rank != 1:
        torch.ops._c10d_functional.wait_tensor(torch.ops._c10d_functional.all_reduce(torch.ones(4), "sum", mesh.get_group().group_name))
"""
# Each passes, or fails as it says; `of_process` is restored behind the test that left it.
OWN = """
import os, random, subprocess, sys, threading, warnings
import lockstep, numpy, pytest, torch, torch.distributed as dist

@lockstep.world(2)
def test_closes_its_output(rank):
    print(f"printed by {rank}")
    if rank == 1: sys.stdout.close(); sys.stderr.close()
    dist.barrier()
    print(f"printed later by {rank}") if rank == 0 else None

@lockstep.world(2)
def test_own(rank):
    torch.manual_seed(rank); random.seed(rank); numpy.random.seed(rank)
    expected = torch.rand(1), random.random(), numpy.random.rand()
    torch.manual_seed(rank); random.seed(rank); numpy.random.seed(rank)
    if rank == 1:
        torch.set_default_dtype(torch.float64)
        torch.set_default_device("meta")
        os.environ["OWN"] = "1"
        sys.excepthook = None
        torch.set_grad_enabled(False)
        dist.set_debug_level(dist.DebugLevel.DETAIL)
    dist.barrier()
    assert dist.get_debug_level() == (dist.DebugLevel.DETAIL if rank else dist.DebugLevel.OFF)
    dist.barrier(); dist.set_debug_level(dist.DebugLevel.DETAIL)
    everyone = dist.new_group()  # It checks on every rank.
    dist.set_debug_level(dist.DebugLevel.OFF); dist.barrier(everyone)
    with torch.device("cpu"):
        assert (torch.rand(1, dtype=torch.float32), random.random(), numpy.random.rand()) == expected
    assert torch.get_default_dtype() == (torch.float64 if rank else torch.float32)
    assert torch.get_default_device().type == ("meta" if rank else "cpu")
    assert os.environ.get("OWN") == subprocess.run("printf $OWN", shell=True, capture_output=True, text=True).stdout or rank == 0
    assert ("OWN" in os.environ, sys.excepthook is None, torch.is_grad_enabled()) == ((True, True, False) if rank else (False, False, True))

@lockstep.world(3)
@pytest.mark.parametrize("count", [1, 2, 3])
def test_normals_of_which_one_is_left_over(rank, count):
    def draws():
        for _ in range(5):
            yield [draw() for draw in (lambda: random.gauss(0, 1), numpy.random.randn, numpy.random.rand)[:count] for _ in range(rank)]
    random.seed(rank); numpy.random.seed(rank)
    alone, together = list(draws()), []
    random.seed(rank); numpy.random.seed(rank)
    for drawn in draws():
        together.append(drawn)
        dist.barrier()
    assert together == alone

@lockstep.world(2)
def test_after_own(rank):
    assert torch.get_default_dtype() == torch.float32 and torch.get_default_device().type == "cpu" and torch.is_grad_enabled()
    assert "OWN" not in os.environ and sys.excepthook is not None and dist.get_debug_level() == dist.DebugLevel.OFF

@lockstep.world(2)
def test_of_process(rank):
    dist.barrier()
    if rank == 1:
        os.chdir("/")
        sys.path.insert(0, "/nowhere")
        torch.use_deterministic_algorithms(True)

@lockstep.world(2)
def test_after_of_process(rank):
    assert os.getcwd() != "/" and "/nowhere" not in sys.path and not torch.are_deterministic_algorithms_enabled()
    dist.barrier()

@lockstep.world(2)
def test_thread(rank):
    if rank == 1: threading.Thread(target=threading.Event().wait, name="sleeper").start()

@lockstep.world(2)
def test_program(rank):
    if rank == 1: subprocess.Popen(["sleep", "1000"])

@lockstep.world(2)
def test_last(rank):
    assert threading.active_count() <= 3
    dist.barrier()
"""
ENDS = """
import os, signal, time
import lockstep, torch.distributed as dist

class Mute(Exception):
    def __str__(self): raise ValueError("no text")
    __repr__ = __str__

@lockstep.world(2)
def test_mute(rank):
    if rank == 1: raise Mute
    dist.barrier()

@lockstep.world(2)
def test_interrupted(rank):
    if rank == 1: os.kill(os.getpid(), signal.SIGINT)
    dist.barrier()

@lockstep.world(2)
def test_alarm(rank):
    dist.barrier()
    if rank == 1: signal.alarm(1); time.sleep(1000)

@lockstep.world(2)
def test_exits(rank):
    if rank == 1: os._exit(3)

@lockstep.world(2)
def test_handler(rank):
    signal.signal(signal.SIGALRM, print)

@lockstep.world(2)
def test_last():
    dist.barrier()
"""
# Groups of each test have names that count from the first of the process, and DTensor keeps what it has computed.
MESHES = """
import lockstep, torch, torch.distributed as dist
from torch.distributed.tensor import Shard, distribute_tensor
import pytest

@pytest.mark.parametrize("more", [0, 1, 0])
@lockstep.world(4)
def test_meshes(rank, more):
    for _ in range(more): dist.new_group([0, 3])
    mesh = dist.init_device_mesh("cpu", (2, 2))
    sharded = distribute_tensor(torch.arange(16.).view(4, 4), mesh, [Shard(0), Shard(1)])
    assert (sharded @ sharded).relu().sum(0).full_tensor().tolist() == [800, 920, 1040, 1160]
"""
CLOSES = """
import sys, lockstep

@lockstep.world(2)
def test_closes(rank): sys.stdout.close(); sys.stderr.close()
"""


class InSimulation(project.Project):
    def check(self, text, *options, tier="sim", status=0, **more):
        self.write("test_it.py", text)
        got, said, results = self.pytest("--lockstep-tier", tier, *options, **more)
        self.assertEqual(got, status, said)
        self.assertNotIn("ran cold", said)
        self.assert_nothing_is_left()
        return said, results

    def test_each_feature_is_as_in_forked_ranks(self):
        with open(os.path.join(HERE, "features.py"), encoding="utf-8") as file:
            self.write("features.py", file.read())
        for part in range(PARTS):
            self.check(FEATURES, PAGE=os.path.join(HERE, "..", "..", "docs", "python.md"), PART=str(part), PARTS=str(PARTS))

    def test_timeouts_pass_in_virtual_time(self):
        self.check(TIMEOUTS)

    def test_a_functional_collective_without_a_peer_is_proved(self):
        said, results = self.check(FOR_EVER, status=1)
        self.assert_says(results["test_mesh[world3]"][1], "ranks 0, 2 of 3 wait for ever: rank 1 never issued collective #0, allreduce of 4 float32",
                         "in test_mesh")

    def test_ranks_have_their_own_and_what_they_share_is_restored(self):
        said, results = self.check(OWN)
        self.assert_says(results["test_closes_its_output[world2]"][1], "printed by 1", "printed later by 0")
        self.assert_says(said, r"test_of_process\[world2\]: left behind in kept ranks: .*deterministic.*the working folder, /.*sys.path.*set right",
                         r"test_thread\[world2\]: left behind in kept ranks: the thread sleeper; they were replaced",
                         r"test_program\[world2\]: left behind in kept ranks: the process \d+ \(sleep\); they were replaced")
        for name in "own", "last", "after_of_process":
            self.assertNotIn(f"test_{name}[world2]:", said)

    def test_ends_are_named(self):
        says = {"mute": ["rank 1 of 2 failed", "rank 1: failed: .*Mute"], "interrupted": ["rank 1 of 2 died by SIGINT"],
                "alarm": ["rank 1 of 2 died by SIGALRM"], "exits": ["rank 1 of 2 ended its process with exit status 3"],
                "handler": ["signal only works in main thread"]}
        _, results = self.check(ENDS, status=1)
        for name, patterns in says.items():
            self.assert_says(results[f"test_{name}[world2]"][1], *patterns)
        self.assertEqual(results["test_last[world2]"][0], "passed")

    def test_meshes_are_those_of_their_test(self):
        for tier in "sim", "warm":
            self.check(MESHES, tier=tier)

    def test_ranks_that_close_their_output_end(self):
        for tier in "cold", "sim":
            self.check(CLOSES, "-s", tier=tier)


if __name__ == "__main__":
    project.PYTHON = os.path.abspath(sys.argv.pop(1))
    unittest.main()
