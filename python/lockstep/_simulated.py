"""Worlds of simulated ranks: threads of one forked process that take turns, whose collectives are carried in memory."""
from __future__ import annotations

import copy
import ctypes
import functools
import gc
import io
import json
import logging
import mmap
import os
import signal
import struct
import sys
import threading
import time
import types
import warnings
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import torch
import torch._C._distributed_c10d as c10d
from lockstep_recorder import _state
from torch.distributed.tensor import DTensor

from . import _calls, _rank, _simulated_groups
from ._generators import Generators
from ._processes import Capture, Process, ask_for_stacks
from ._rank import Outcome, Task
from ._state import State, running
from ._verdict import RankEnd, Verdict, died_of, judge, ranks_in_words, stack_of_thread
from ._worlds import Lookup

SIZE_MAX = 1024
READY_SECONDS = 120.0
GARBAGE_MOST = 100_000  # Objects that only the collector may free.
Report = ctypes.CFUNCTYPE(None, ctypes.c_char_p)


@functools.cache
def library() -> ctypes.CDLL:
    loaded = ctypes.CDLL(os.path.join(os.path.dirname(__file__), "lib", "liblockstep.so"))
    loaded.lockstep_simulate.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.py_object, Report]
    loaded.lockstep_simulate.restype = None
    return loaded


def simulate(body: Turns) -> dict[str, Any]:
    """Runs body.run(rank, group) in each rank. What it returns is described in python/simulated.cpp."""
    world = json.dumps({"size": len(body.ranks), "reduction": "ring"})  # Gloo's order, so that sums are the same to the last bit.
    texts: list[bytes] = []
    torch_folder = os.path.dirname(os.path.abspath(torch.__file__))
    library().lockstep_simulate(os.fsencode(sys.prefix), os.fsencode(torch_folder), world.encode(), body, Report(texts.append))
    report: dict[str, Any] = json.loads(texts[0])
    if "error" in report:
        raise RuntimeError(report["error"])
    return report


class Debugging:
    """The debug level of torch.distributed, which decides whether a new group checks its collectives."""

    level = property(lambda _: c10d.get_debug_level(), lambda _, level: c10d.set_debug_level(level))


# Attributes of which a process has one each, and of which each rank has its own.
SWAPPED: tuple[tuple[Any, str], ...] = (
    (sys, "stdout"), (sys, "stderr"), (sys, "excepthook"), (os.environ, "_data"), (logging.getLogger(), "handlers"), (warnings, "filters"),
    (warnings, "showwarning"), (warnings, "_showwarnmsg_impl"), (_state, "recorder"), (DTensor._op_dispatcher, "_custom_op_handlers"),
    (Debugging(), "level"))


class Printed(io.StringIO):
    """The output of a rank. Its text stays where the rank closes it."""

    text = ""

    def close(self) -> None:
        self.text = self.so_far()
        super().close()

    def so_far(self) -> str:
        return self.text if self.closed else self.getvalue()


class OfRank:
    """The state of a rank that does not run, of which Python has one in a process. PyTorch's generator, default dtype and the
    environment are exchanged by the library."""

    def __init__(self, is_captured: bool, generators: Generators) -> None:
        self.thread = 0
        self.printed = {name: Printed() for name in ("stdout", "stderr")} if is_captured else {}
        held = [getattr(place, name) for place, name in SWAPPED]
        self.values = [copy.copy(value) if isinstance(value, (dict, list, types.SimpleNamespace)) else value for value in held]
        self.values[:len(self.printed)] = self.printed.values()
        self.generators = copy.copy(generators)

    def swap(self) -> None:
        """Exchanges attributes with the process's."""
        for number, (place, name) in enumerate(SWAPPED):
            held = getattr(place, name)
            setattr(place, name, self.values[number])
            self.values[number] = held
        warnings._filters_mutated()  # type: ignore[attr-defined]

    def begin(self) -> None:
        self.swap()
        self.generators.restore()

    def end(self) -> None:
        self.swap()
        self.generators.keep()


class Turns:
    """The ranks of one world. The library calls `run` in each rank's thread, and `begin` and `end` around each of its turns."""

    def __init__(self, size: int, perform: Callable[[int], Outcome | None], running: mmap.mmap, is_captured: bool) -> None:
        self.perform, self.running = perform, running
        generators = Generators()
        self.ranks = [OfRank(is_captured, generators) for _ in range(size)]
        self.outcomes: list[Outcome | None] = [None] * size
        self.finished: list[int] = []  # In their order.

    def begin(self, rank: int, generator: torch.Generator) -> None:
        self.running[:4] = struct.pack("<i", rank)
        self.ranks[rank].begin()
        torch.default_generator = torch.random.default_generator = generator  # type: ignore[attr-defined]  # It is what torch.rand() draws from.

    def end(self, rank: int, generator: torch.Generator) -> None:
        self.ranks[rank].end()

    def run(self, rank: int, group: Any) -> None:
        self.ranks[rank].thread = threading.get_ident()
        own, size = str(rank), str(len(self.ranks))
        os.environ.update(RANK=own, LOCAL_RANK=own, WORLD_SIZE=size, LOCAL_WORLD_SIZE=size)
        _simulated_groups.join(group)
        outcome = self.outcomes[rank] = self.perform(rank)
        _simulated_groups.leave()
        self.finished.append(rank)
        if outcome and outcome.kind == "failed":
            name, _, text = outcome.line.partition(": ")
            raise type(name, (Exception,), {})(text)  # Its peers see it leave.

    def stack(self, rank: int) -> str:
        """Returns the stack of a frozen rank."""
        return stack_of_thread(self.ranks[rank].thread, "Thread")


def run_here(turns: Turns, before: State, others: set[str], connection: Connection) -> bool:
    """Runs a world in this process, beside `others`, and sends how each rank ended. Whether this process can run another one."""
    report = simulate(turns)
    left_behind, started = before.restore(), sorted(running() - others)
    ends = []
    for rank, of_rank in enumerate(turns.ranks):
        outcome, printed = turns.outcomes[rank], {name: stream.so_far() for name, stream in of_rank.printed.items()}
        if outcome is None and report["ranks"][rank]["ending"] == "threw":  # Outside of its test, such as in the making of its group.
            outcome = Outcome("failed", line=report["ranks"][rank]["why"])
        ends.append(RankEnd(outcome, stack="" if outcome else turns.stack(rank), printed=printed))
    is_usable = report["is_usable"] and not started
    left_behind = left_behind + started if report["is_usable"] else []
    connection.send((ends, turns.finished, report["diverges"], report["ladder"], left_behind, is_usable))
    if gc.get_count()[0] > GARBAGE_MOST:  # The library has switched the collector off: it would run in the turn of any rank.
        gc.collect()
    return bool(is_usable)


class Host:
    """A process that runs simulated worlds of any size, one after the other. What it is sent for each is looked up by `lookup`."""

    def __init__(self, lookup: Lookup, capture: Capture) -> None:
        with warnings.catch_warnings():  # Of PyTorch's own deprecations.
            warnings.simplefilter("ignore")
            import torch._dynamo  # As in a World; and what the library imports.
            import torch.distributed.algorithms.ddp_comm_hooks
            import torch.distributed.algorithms.model_averaging.averagers
            import torch.distributed.optim  # noqa: F401
        _calls.install()
        self.lookup = lookup
        self.progress = _calls.Progress(SIZE_MAX)
        self.running = mmap.mmap(-1, 4)  # The rank whose turn it is.
        self.last, self.is_captured, self.is_ready = "", capture is not Capture.NOTHING, False
        self.process = Process(self._serve, capture)

    def _serve(self, connection: Connection) -> None:
        _calls.Issued.has_futures = False  # To ask for one there waits for the collective.
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # Python's would be for the main thread, which runs no rank.
        try:
            simulate(Turns(1, lambda _: None, self.running, self.is_captured))  # The first one loads the library.
        except Exception as error:
            return connection.send(str(error))
        connection.send("")
        others = running()
        while (request := connection.recv()) is not None:
            size, task, state, what = request
            before = state.settle(State())

            def perform(rank: int, size: int = size, task: Task = task, what: Any = what) -> Outcome:
                body, render = self.lookup(rank, what)
                return _rank.perform(task, rank, size, self.progress, body, render)
            if not run_here(Turns(size, perform, self.running, self.is_captured), before, others, connection):
                return

    def wait_until_ready(self) -> None:
        """Throws where the library cannot run here."""
        if not self.is_ready:
            if not self.process.connection.poll(READY_SECONDS):
                raise RuntimeError(f"the process of simulated ranks was not ready after {READY_SECONDS:g} s")
            if problem := self.process.connection.recv():
                raise RuntimeError(f"simulated ranks cannot run here: {problem}")
            self.is_ready = True

    def run(self, size: int, task: Task, state: State, what: Any, timeout: float) -> tuple[Verdict, bool]:
        """And whether the process can run another world."""
        if size > SIZE_MAX:
            raise ValueError(f"a simulated world has at most {SIZE_MAX:,} ranks, not {size:,}")
        self.last = task.name
        for rank in range(size):
            self.progress.write(rank, {"groups": {}})
        self.wait_until_ready()
        self.process.mark()
        self.process.connection.send((size, task, state, what))
        self.process.is_idle = False
        deadline = time.monotonic() + timeout
        try:
            if not self.process.connection.poll(timeout):
                return self._late(size, timeout), False
            ends, finished, diverges, ladder, left_behind, is_usable = self.process.connection.recv()
        except (EOFError, ConnectionResetError):
            if not self.process.has_ended(max(0.0, deadline - time.monotonic())):
                return self._late(size, timeout), False
            self.process.reap()
            ends = self._open_ends(size)
            died = ends[struct.unpack("<i", self.running[:4])[0]]
            died.status, died.stack, died.printed = self.process.status, self.process.stack(), self.process.printed()
            return judge(ends), False
        self.process.is_idle = True
        for rank, end in enumerate(ends):
            end.progress = self.progress.read(rank)
        verdict = verdict_of(ends, finished, diverges, ladder)
        verdict.left_behind += left_behind
        return verdict, is_usable

    def _open_ends(self, size: int, seconds: float = 0) -> list[RankEnd]:
        return [RankEnd(progress=self.progress.read(rank), seconds=seconds) for rank in range(size)]

    def _late(self, size: int, timeout: float) -> Verdict:
        """The verdict on ranks that use up the time of their test."""
        ask_for_stacks([self.process])
        ends = self._open_ends(size, timeout)
        ends[0].stack = self.process.stack()
        verdict, running = judge(ends), struct.unpack("<i", self.running[:4])[0]
        verdict.sentence = f"rank {running} of {size} did not end within {timeout:g} s, and the others wait for their turn"
        return verdict

    def trouble(self) -> str:
        """Returns why no test can run in it; empty: one can."""
        if not self.process.has_ended():
            return ""
        self.process.reap()
        return f"the process of the simulated ranks {died_of(self.process.status or 0)}; it was replaced"

    def close(self) -> None:
        self.process.dismiss()
        self.process.close()


def verdict_of(ends: list[RankEnd], finished: list[int], diverges: str, ladder: list[str]) -> Verdict:
    verdict = judge(ends)
    failed = [rank for rank in finished if (outcome := ends[rank].outcome) is not None and outcome.kind == "failed"]
    waiting = [rank for rank, end in enumerate(ends) if end.outcome is None]
    if failed:  # The first one: its peers may have failed since it left.
        verdict.blamed, verdict.sentence = failed[0], f"rank {failed[0]} of {len(ends)} failed"
    elif waiting:
        verdict.sentence = f"{ranks_in_words(waiting)} of {len(ends)} {'wait' if len(waiting) > 1 else 'waits'} for ever" + (f": {diverges}" if diverges else "")
    if waiting:
        verdict.states += ladder
    return verdict
