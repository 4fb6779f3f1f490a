"""Mistakes in tests of a world of three, each with what the report says of it. The text of a mistake is the body of a test."""

import collections

Planted = collections.namedtuple("Planted", "name body says timeout tiers", defaults=(None, ("cold", "warm")))

PREFACE = '''
import ctypes, multiprocessing, os, signal, subprocess, sys, threading, time
import pytest, torch, torch.distributed as dist
import lockstep
from torch.nn.parallel import DistributedDataParallel

class Slow(torch.utils.data.Dataset):
    def __len__(self): return 4
    def __getitem__(self, index): time.sleep(1000)

class Ending(Slow):
    def __getitem__(self, index): os._exit(7)

class Stubborn(Exception):
    def __init__(self, first, second): super().__init__("cannot be made again")

def close_sockets():
    for name in os.listdir("/proc/self/fd"):
        if os.path.exists(path := f"/proc/self/fd/{name}") and os.readlink(path).startswith("socket:"):
            os.close(int(name))

def deep(n): return deep(n + 1)

def model(): return DistributedDataParallel(torch.nn.Linear(2, 2))

@lockstep.world(3)
def test_before_all(rank):  # The first one in a process loads what PyTorch loads late, for which the deadlines below leave no time.
    lockstep.inject("delay", rank=0, at=2, seconds=0)
    (ddp := model())(torch.ones(1, 2)).sum().backward()
    dist.barrier()
'''

HANGS = [
    Planted("throws_while_others_wait", "if rank == 1: raise ValueError('first')\ndist.barrier()",
            ["rank 1: ValueError: first", "rank 0: waits in barrier, number 1 of the world at .*, to which rank 1 did not come",
             "stack of rank 2", "line \\d+ in test_throws_while_others_wait"]),
    Planted("returns_while_others_wait", "if rank != 1: dist.all_reduce(torch.ones(4))",
            ["ranks 0, 2 of 3 did not end within 1 s of rank 1", "rank 2: waits in allreduce.* rank 1 did not come", "rank 1: passed"]),
    Planted("skips_one_of_two", "dist.all_reduce(torch.ones(1))\nif rank != 2: dist.broadcast(torch.ones(1), 0)\nif rank != 2: dist.barrier()",
            ["rank 1: waits in (broadcast|barrier), number [23] of the world", "to which rank 2 did not come"]),
    Planted("adds_other_sizes", "dist.all_reduce(torch.ones(1 + rank))",
            ["of 3 did not end within 4 s", "rank 2: waits in allreduce of 3 float32, number 1 of the world"], 4),
    Planted("sleeps", "if rank == 2: time.sleep(1000)\ndist.barrier()",
            ["did not end within 4 s", "rank 2: runs, and has issued no collective", "rank 0: waits in barrier", "line \\d+ in test_sleeps"], 4),
    Planted("loops", "while rank: pass", ["ranks 1, 2 of 3 did not end within 4 s", "stack of rank 1", "in test_loops"], 4),
    Planted("receives_what_nobody_sends", "if rank == 0: dist.recv(torch.ones(1), 1)",
            ["rank 0 of 3 did not end within 1 s", "rank 0: waits in recv with rank 1"]),
    Planted("waits_in_a_ring", "groups = [dist.new_group([a, b]) for a, b in ((0, 1), (1, 2), (0, 2))]\n"
            "dist.all_reduce(torch.ones(1), group=groups[rank])\ndist.barrier()",
            ["ranks 0, 1, 2 of 3 did not end", "rank 1: waits in allreduce, number 1 of ranks 1,2", "to which rank 2 did not come"], 4),
    Planted("locks_twice", "lock = threading.Lock()\nif rank == 1: lock.acquire(); lock.acquire()\ndist.barrier()",
            ["rank 1: runs, and has issued no collective", "in test_locks_twice"], 4),
    Planted("waits_for_work", "if rank == 0: dist.all_reduce(torch.ones(1), async_op=True).wait()",
            ["rank 0 of 3 did not end within 1 s", "rank 0: waits in allreduce"]),
    Planted("skips_a_backward", "ddp = model()\nloss = ddp(torch.ones(1, 2)).sum()\nif rank: loss.backward()",
            ["rank 1: waits in ddp_backward.*to which rank 0 did not come"]),
    Planted("wraps_on_two_ranks", "if rank: model()", ["rank 2: waits in ddp_construction.*to which rank 0 did not come"]),
    Planted("loads_for_ever", "if rank: next(iter(torch.utils.data.DataLoader(Slow(), num_workers=1)))",
            ["did not end within 4 s", "in test_loads_for_ever"], 4),
    Planted("waits_for_a_program", "if rank: subprocess.run(['sleep', '1000'])", ["did not end within 4 s", "in test_waits_for_a_program"], 4),
    Planted("catches_signals_and_sleeps", "signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
            "time.sleep(1000 * (rank == 1))", ["rank 1 of 3 did not end within 4 s"], 4),
    Planted("closes_its_sockets_and_sleeps", "if rank == 1: close_sockets(); time.sleep(1000)", ["rank 1 of 3 did not end within 4 s"], 4),
    Planted("stops", "if rank == 1: os.kill(os.getpid(), signal.SIGSTOP)\ndist.barrier()", ["did not end within 4 s", "rank 1: runs, and has issued"], 4),
]
ENDS = [
    Planted("is_killed", "if rank == 1: os.kill(os.getpid(), signal.SIGKILL)\ndist.barrier()", ["rank 1 of 3 died by SIGKILL; it left no stack"]),
    Planted("reads_null", "if rank == 2: ctypes.string_at(0)\ndist.barrier()",
            ["rank 2 of 3 died by SIGSEGV", "Python stack of rank 2", "Segmentation fault", "in test_reads_null"]),
    Planted("aborts", "if rank == 0: os.abort()", ["rank 0 of 3 died by SIGABRT", "in test_aborts", "rank 1: passed"]),
    Planted("divides_by_zero_in_c", "if rank == 0: signal.raise_signal(signal.SIGFPE)", ["rank 0 of 3 died by SIGFPE", "in test_divides"]),
    Planted("bus_error", "if rank == 0: signal.raise_signal(signal.SIGBUS)", ["rank 0 of 3 died by SIGBUS", "in test_bus_error"]),
    Planted("is_terminated", "if rank == 0: os.kill(os.getpid(), signal.SIGTERM)\ndist.barrier()", ["rank 0 of 3 died by SIGTERM"]),
    Planted("leaves", "if rank == 1: os._exit(3)\ndist.barrier()", ["rank 1 of 3 ended its process with exit status 3"]),
    Planted("leaves_as_if_well", "if rank == 1: os._exit(0)", ["rank 1 of 3 ended its process with exit status 0"]),
    Planted("closes_its_sockets", "if rank == 1: close_sockets()", ["rank 1 of 3 ended its process with exit status 1"]),
    Planted("closes_its_files", "if rank == 1: os.closerange(3, 1000); time.sleep(1000)", ["rank 1 of 3 died by SIGABRT", "gloo::EnforceNotMet"]),
    Planted("all_are_killed", "os.kill(os.getpid(), signal.SIGKILL)", ["rank 0 of 3 died by SIGKILL", "rank 2: died by SIGKILL"]),
    Planted("kills_its_group", "if rank == 1: os.killpg(0, signal.SIGKILL)\ndist.barrier()", ["rank 1 of 3 died by SIGKILL"]),
]
THROWS = [
    Planted("catches_what_a_collective_throws_and_sleeps", "if rank == 1:\n    try: dist.broadcast('no tensor', 0)\n    except Exception: time.sleep(1.5)\n"
            "assert rank", ["rank 0: assert 0", "rank 1: (passed|runs; its last collective is broadcast)"]),
    Planted("asserts", "value = {'rank': rank}\nassert value['rank'] != 1", ["rank 1: assert 1 != 1", "rank 0: passed"]),
    Planted("all_assert", "assert [rank] == [7]", ["rank 0: assert \\[0\\] == \\[7\\]", "At index 0 diff: 0 != 7", "rank 2: failed: AssertionError"]),
    Planted("exits", "if rank == 1: sys.exit(2)", ["rank 1: SystemExit: 2"]),
    Planted("is_interrupted", "if rank == 1: raise KeyboardInterrupt", ["rank 1: .*KeyboardInterrupt"]),
    Planted("throws_what_cannot_be_sent", "if rank == 1: raise Stubborn(1, 2)", ["rank 1: .*Stubborn: cannot be made again"]),
    Planted("recurses", "deep(rank)", ["rank 0: RecursionError"]),
    Planted("torch_throws", "torch.ones(2) @ torch.ones(2 + rank)", ["rank 1: RuntimeError: .*size"]),
    Planted("fails_by_pytest", "if rank == 2: pytest.fail('by hand')", ["rank 2: Failed: by hand"]),
    Planted("throws_in_a_hook", "x = torch.ones(1, requires_grad=True)\nx.register_hook(lambda g: 1 / 0)\n(x * 2).backward()",
            ["rank 0: ZeroDivisionError"]),
    Planted("worker_ends", "if rank == 1: next(iter(torch.utils.data.DataLoader(Ending(), num_workers=1)))", ["rank 1: RuntimeError: DataLoader worker"]),
    Planted("reads_input", "input()", ["rank 0: (OSError|EOFError)"]),
    Planted("one_skips", "if rank == 1: pytest.skip('not here')", ["the ranks disagree on whether this test is skipped", "rank 1: skipped: not here"]),
    Planted("one_skips_and_others_wait", "if rank == 1: pytest.skip('not here')\ndist.barrier()",
            ["ranks 0, 2 of 3 did not end within 1 s of rank 1", "rank 1: skipped: not here"]),
]
# These pass, and say what they left in ranks that are kept; `says` is of that.
LEAKS = [
    Planted("variable", "os.environ['FOO'] = str(rank)", ["the environment variable FOO on rank 0", "set right"]),
    Planted("folder", "os.chdir('/')", ["the working folder, / on rank 2", "set right"]),
    Planted("removed_folder", "os.makedirs(f'gone{rank}'); os.chdir(f'gone{rank}'); os.rmdir(f'../gone{rank}')",
            ["the working folder, .*gone0 \\(deleted\\) on rank 0", "set right"]),
    Planted("dtype", "if rank == 1: torch.set_default_dtype(torch.float64)", ["default dtype, torch.float64 on rank 1", "set right"]),
    Planted("grad_mode", "torch.set_grad_enabled(False)", ["grad mode, False on rank 0", "set right"]),
    Planted("deterministic", "torch.use_deterministic_algorithms(True)", ["deterministic algorithms, True on rank 0", "set right"]),
    Planted("threads", "torch.set_num_threads(2)", ["number of threads, 2 on rank 0", "set right"]),
    Planted("path", "sys.path.insert(0, '/nowhere')", ["sys.path, .*nowhere.* on rank 0", "set right"]),
    Planted("timer", "signal.setitimer(signal.ITIMER_REAL, 1000 * (rank == 1))", ["a timer that runs on rank 1", "set right"]),
    Planted("thread", "if rank == 1: threading.Thread(target=time.sleep, args=(1000,), daemon=True, name='sleeper').start()",
            ["the thread sleeper on rank 1", "replaced"]),
    Planted("process", "if rank == 1: multiprocessing.get_context('fork').Process(target=time.sleep, args=(1000,), daemon=True).start()",
            ["the process \\d+ .* on rank 1", "replaced"]),
    Planted("program", "if rank == 1: subprocess.Popen(['sleep', '1000'])", ["the process \\d+ .* on rank 1", "replaced"]),
    Planted("no_group", "dist.destroy_process_group()", ["no default group on rank 2", "replaced"]),
    Planted("unmatched", "if rank == 1: dist.all_reduce(torch.ones(3), async_op=True)", ["does not work any more", "replaced"]),
    Planted("message", "if rank == 1: dist.isend(torch.ones(1), 0)", ["does not work any more", "replaced"]),
    Planted("unmatched_sum", "if rank == 1: dist.all_reduce(torch.ones(1, dtype=torch.int64), async_op=True)", ["does not work any more", "replaced"]),
]
# With lockstep.inject: what a test of a recovery plants, and what becomes of one that has none.
INJECTED = [
    Planted("kill", "lockstep.inject('kill', rank=1, at=1)\ndist.barrier()\ndist.all_reduce(torch.ones(1))", ["rank 1 of 3 died by SIGKILL"]),
    Planted("throw", "lockstep.inject('throw', rank=2, at=0)\ndist.broadcast(torch.ones(1), 0)\ndist.barrier()",
            ["rank 2: lockstep.InjectedError: broadcast: planted", "rank 1: waits in (broadcast|barrier).*to which ranks? .*2 did not come", "line \\d+ in test_throw"]),
    Planted("drop", "lockstep.inject('drop', rank=1, at=0)\ndist.all_reduce(torch.ones(1))", ["ranks 0, 2 of 3 did not end within 1 s of rank 1", "line \\d+ in test_drop"]),
    Planted("delay", "lockstep.inject('delay', rank=1, at=0, seconds=1000)\ndist.barrier()", ["did not end within 4 s", "in test_delay"], 4),
]
FAILING = INJECTED + HANGS + ENDS + THROWS
# Other reports of these in the tier sim: all ranks are threads of one process, a rank whose peer has failed
# sees that, and a hang is proved as soon as nobody can run.
IN_SIMULATION = {
    "throw": ["rank 2: lockstep.InjectedError: broadcast: planted", "rank 1: failed: RuntimeError: rank 2 never came to collective #0"],
    "drop": ["ranks 0, 2 of 3 wait for ever: rank 1 never issued collective #0", "rank 2: waits in allreduce"],
    "throws_while_others_wait": ["rank 1: ValueError: first", "rank 0: failed: RuntimeError: rank 1 never came to collective #0: threw"],
    "returns_while_others_wait": ["ranks 0, 2 of 3 wait for ever: rank 1 never issued collective #0, allreduce of 4 float32", "rank 1: passed"],
    "adds_other_sizes": ["rank 0: failed: RuntimeError: collective #0 differs: rank 0 issued allreduce of 1 float32, rank 1 allreduce of 2"],
    "loops": ["rank [12] of 3 did not end within 4 s, and the others wait for their turn", "in test_loops"],
    "receives_what_nobody_sends": ["rank 0 of 3 waits for ever", "rank 0: waits in recv with rank 1", "stack of rank 0"],
    "waits_in_a_ring": ["ranks 0, 1, 2 of 3 wait for ever", "rank 1: waits in allreduce, number 1 of ranks 1,2"],
    "waits_for_work": ["rank 0 of 3 waits for ever: rank 0 issued one more than ranks 1, 2: collective #0"],
    "skips_a_backward": ["ranks 1, 2 of 3 wait for ever: rank 0 never issued collective #3, allreduce of 6 float32"],
    "catches_signals_and_sleeps": ["rank 0: ValueError: signal only works in main thread"],
    "closes_its_sockets_and_sleeps": ["rank 1 of 3 did not end within 4 s"],
    "stops": ["rank \\d of 3 did not end within 4 s"],
    "aborts": ["rank 0 of 3 died by SIGABRT", "in test_aborts"],
    "divides_by_zero_in_c": ["rank \\d of 3 died by SIGFPE"],
    "bus_error": ["rank \\d of 3 died by SIGBUS"],
    "is_terminated": ["rank \\d of 3 died by SIGTERM"],
    "closes_its_sockets": ["rank \\d of 3 ended its process with exit status 1"],
    "closes_its_files": ["rank 1 of 3 did not end within"],
    "all_are_killed": ["rank \\d of 3 died by SIGKILL"],
    "one_skips_and_others_wait": ["ranks 0, 2 of 3 wait for ever: rank 1 never issued collective #0", "rank 1: skipped: not here"],
}
AFTER = '''
if rank == 1: dist.send(torch.zeros(1), 0)
if rank == 0: dist.recv(message := torch.ones(1), 1)
assert rank or message.item() == 0
dist.all_reduce(total := torch.ones(1))
assert total.item() == dist.get_world_size() and os.environ["RANK"] == str(rank) and "FOO" not in os.environ and os.getcwd() != "/"
assert torch.get_default_dtype() == torch.float32 and torch.is_grad_enabled() and torch.get_num_threads() == 1
assert not torch.are_deterministic_algorithms_enabled() and "/nowhere" not in sys.path and threading.active_count() == 1
dist.barrier()
'''


def file_of(planted, tier="cold"):
    """A file in which a test that must pass follows each of these."""
    lines = [PREFACE]
    after = AFTER.strip().replace(" and threading.active_count() == 1", "") if tier == "sim" else AFTER.strip()  # Ranks are threads there.
    for each in planted:
        for name, body, timeout in (each.name, each.body, each.timeout), ("after_" + each.name, after, None):
            lines += [f"@lockstep.world(3, timeout={timeout})", f"def test_{name}(rank):", *("    " + line for line in body.splitlines()), ""]
    return "\n".join(lines)
