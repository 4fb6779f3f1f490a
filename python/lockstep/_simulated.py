"""Worlds of simulated ranks: threads of one forked process that take turns, whose collectives are carried in memory."""
from __future__ import annotations

import ctypes
import functools
import io
import json
import logging
import mmap
import os
import random
import struct
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from typing import Any

import torch
import torch.distributed as dist
from lockstep_recorder import _state

from . import _calls, _rank
from ._processes import Capture, Process, ask_for_stacks
from ._rank import Outcome, Task
from ._state import State
from ._verdict import RankEnd, Verdict, died_of, judge, ranks_in_words
from ._worlds import Lookup, state_of_ranks

SIZE_MAX = 1024
Report = ctypes.CFUNCTYPE(None, ctypes.c_char_p)


@functools.cache
def library() -> ctypes.CDLL:
    loaded = ctypes.CDLL(os.path.join(os.path.dirname(__file__), "lib", "liblockstep.so"))
    loaded.lockstep_simulate.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.py_object, Report]
    loaded.lockstep_simulate.restype = None
    return loaded


def simulate(size: int, body: Turns) -> dict[str, Any]:
    """Runs body.run(rank, group) in each rank. What it returns is described in python/simulated.cpp."""
    texts: list[bytes] = []
    torch_folder = os.path.dirname(os.path.abspath(torch.__file__))
    library().lockstep_simulate(os.fsencode(sys.prefix), os.fsencode(torch_folder), json.dumps({"size": size}).encode(), body,
                                Report(texts.append))
    report: dict[str, Any] = json.loads(texts[0])
    if "error" in report:
        raise RuntimeError(f"simulated ranks cannot run here: {report['error']}")
    return report


# Attributes of which a process has one each, and of which each rank has its own.
SWAPPED: tuple[tuple[Any, str], ...] = (
    (sys, "stdout"), (sys, "stderr"), (os.environ, "_data"), (logging.getLogger(), "handlers"), (warnings, "filters"), (_state, "recorder"),
    (warnings, "showwarning"), (warnings, "_showwarnmsg_impl"), (torch, "default_generator"), (torch.random, "default_generator"))


class OfRank:
    """The state of a rank that does not run, of which Python has one in a process. PyTorch's generator, default dtype and the
    environment are exchanged by the library."""

    def __init__(self) -> None:
        self.thread = 0
        self.printed = {"stdout": io.StringIO(), "stderr": io.StringIO()}
        self.values = [getattr(place, name) for place, name in SWAPPED]
        self.values[:2] = self.printed.values()
        self.values[2:5] = dict(self.values[2]), list(self.values[3]), list(self.values[4])
        self.random = random.getstate()
        self.numpy = sys.modules["numpy"].random.get_state() if "numpy" in sys.modules else None

    def swap(self) -> None:
        """Exchanges it with the process's: as the rank's turn begins, and as it ends."""
        for number, (place, name) in enumerate(SWAPPED):
            held = getattr(place, name)
            setattr(place, name, self.values[number])
            self.values[number] = held
        warnings._filters_mutated()  # type: ignore[attr-defined]
        before, self.random = self.random, random.getstate()
        random.setstate(before)
        if self.numpy is not None:
            numpy = sys.modules["numpy"].random
            before, self.numpy = self.numpy, numpy.get_state()
            numpy.set_state(before)


class Turns:
    """The ranks of one world. The library calls `run` in each rank's thread, and `begin` and `end` around each of its turns."""

    def __init__(self, size: int, perform: Callable[[int], Outcome], running: mmap.mmap) -> None:
        self.perform, self.running = perform, running
        self.ranks = [OfRank() for _ in range(size)]
        self.outcomes: list[Outcome | None] = [None] * size
        self.finished: list[int] = []  # In their order.

    def begin(self, rank: int, generator: torch.Generator) -> None:
        self.running[:4] = struct.pack("<i", rank)
        self.ranks[rank].swap()
        torch.default_generator = torch.random.default_generator = generator  # It is what torch.rand() draws from.
        os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank))

    def end(self, rank: int, generator: torch.Generator) -> None:
        self.ranks[rank].swap()

    def run(self, rank: int, group: Any) -> None:
        settle()
        self.ranks[rank].thread = threading.get_ident()
        outcome = self.perform(rank)
        self.outcomes[rank] = outcome
        self.finished.append(rank)
        if outcome.kind == "failed":
            name, _, text = outcome.line.partition(": ")
            raise type(name, (Exception,), {})(text)  # Its peers see it leave.

    def stack(self, rank: int) -> str:
        """Returns the stack of a frozen rank, innermost call first as faulthandler has it."""
        frame = sys._current_frames().get(self.ranks[rank].thread)
        if frame is None:
            return ""
        lines = [f'  File "{each.filename}", line {each.lineno} in {each.name}' for each in reversed(traceback.extract_stack(frame))]
        return "\n".join([f"Thread 0x{self.ranks[rank].thread:016x} (most recent call first):", *lines])


def new_group(ranks: Any = None, *_: Any, **__: Any) -> Any:
    """In place of what torch.distributed.new_group() calls, which would connect processes. All ranks make the same groups in one order."""
    known = dist.distributed_c10d._world
    known.group_count += 1
    members = sorted(ranks) if ranks is not None else list(range(dist.get_world_size()))
    part = dist.group.WORLD.split_group(members, group_name=f"{','.join(map(str, members))} (group {known.group_count})")
    if part is None:
        return dist.GroupMember.NON_GROUP_MEMBER
    known.pg_map[part] = ("gloo", None)
    known.pg_names[part] = part.group_name
    known.pg_group_ranks[part] = {rank: number for number, rank in enumerate(members)}
    known.pg_backend_config[part] = "cpu:gloo"
    known.pg_to_tag[part] = tag = f"ptd:{part.group_name}"
    known.tags_to_pg.setdefault(tag, []).append(part)
    return part


def no_second_group(*_: Any, **__: Any) -> None:
    raise NotImplementedError("torch.distributed.init_process_group is not there for simulated ranks: use the tier cold or warm")


@functools.cache
def settle() -> None:
    """Once in a process, when the library has made its groups."""
    dist.init_process_group = no_second_group
    dist.distributed_c10d._new_group_with_tag = new_group


def run_here(size: int, perform: Callable[[int], Outcome], running: mmap.mmap, connection: Connection) -> bool:
    """Runs a world in this process and sends how each rank ended. Whether this process can run another one."""
    os.environ.update(WORLD_SIZE=str(size), LOCAL_WORLD_SIZE=str(size))
    torch.set_num_threads(1)
    turns = Turns(size, perform, running)
    report = simulate(size, turns)
    for rank, of_rank in enumerate(turns.ranks):
        outcome, printed = turns.outcomes[rank], {name: stream.getvalue() for name, stream in of_rank.printed.items()}
        connection.send((outcome, "" if outcome else turns.stack(rank), printed))
    connection.send((turns.finished, report["diverges"], report["ladder"], report["is_usable"]))
    return bool(report["is_usable"])


class Host:
    """A process that runs simulated worlds of any size, one after the other. What it is sent for each is looked up by `lookup`."""

    def __init__(self, lookup: Lookup, capture: Capture) -> None:
        import torch._dynamo  # noqa: F401  As in a World.
        _calls.install()
        self.lookup = lookup
        self.progress = _calls.Progress(SIZE_MAX)
        self.running = mmap.mmap(-1, 4)  # The rank whose turn it is.
        self.last = ""
        self.process = Process(self._serve, capture)

    def _serve(self, connection: Connection) -> None:
        _calls.Issued.has_futures = False  # To ask for one there waits for the collective.
        while (request := connection.recv()) is not None:
            size, task, state, what = request
            state.apply()

            def perform(rank: int, size: int = size, task: Task = task, what: Any = what) -> Outcome:
                body, render = self.lookup(rank, what)
                return _rank.perform(task, rank, size, self.progress, body, render)
            if not run_here(size, perform, self.running, connection):
                return

    def run(self, size: int, task: Task, state: State, what: Any, timeout: float) -> tuple[Verdict, bool]:
        """And whether the process can run another world."""
        if size > SIZE_MAX:
            raise ValueError(f"a simulated world has at most {SIZE_MAX:,} ranks, not {size:,}")
        self.last = task.name
        for rank in range(size):
            self.progress.write(rank, {"groups": {}})
        self.process.mark()
        self.process.connection.send((size, task, state, what))
        self.process.is_idle = False
        ends = [RankEnd() for _ in range(size)]
        deadline = time.monotonic() + timeout
        try:
            for rank, end in enumerate(ends):
                if not self.process.connection.poll(max(0.0, deadline - time.monotonic())):
                    return self._late(ends, timeout), False
                end.outcome, end.stack, end.printed = self.process.connection.recv()
                end.progress, end.was_hung = self.progress.read(rank), end.outcome is None
            finished, diverges, ladder, is_usable = self.process.connection.recv()
        except (EOFError, ConnectionResetError):
            if not wait([self.process.handle], max(0.0, deadline - time.monotonic())):
                return self._late(ends, timeout), False
            self.process.reap()
            for rank, end in enumerate(ends):
                end.progress = self.progress.read(rank)
            died = ends[struct.unpack("<i", self.running[:4])[0]]
            died.status, died.stack, died.printed = self.process.status, self.process.stack(), self.process.printed()
            return judge(ends), False
        self.process.is_idle = True
        return verdict_of(ends, finished, diverges, ladder), is_usable

    def _late(self, ends: list[RankEnd], timeout: float) -> Verdict:
        """The verdict on ranks that use up the time of their test."""
        ask_for_stacks([self.process])
        for rank, end in enumerate(ends):
            end.progress, end.was_hung, end.seconds = self.progress.read(rank), end.outcome is None, timeout
        ends[0].stack = self.process.stack()
        verdict, running = judge(ends), struct.unpack("<i", self.running[:4])[0]
        verdict.sentence = f"rank {running} of {len(ends)} did not end within {timeout:g} s, and the others wait for their turn"
        return verdict

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


class KeptHost:
    """The host that is kept for the next test. One that cannot go on is replaced."""

    def __init__(self, lookup: Lookup, capture: Capture) -> None:
        self.lookup, self.capture, self.owner = lookup, capture, os.getpid()
        self.host: Host | None = None
        self.deaths: list[str] = []

    def fork(self, size: int, timeout: float) -> Host:
        if self.host is not None and wait([self.host.process.handle], 0):
            self.host.process.reap()
            self.deaths.append(f"after {self.host.last}, the process of the simulated ranks {died_of(self.host.process.status or 0)}; "
                               "it was replaced")
            self.close()
        if self.host is None:
            self.host = Host(self.lookup, self.capture)
        return self.host

    def run(self, size: int, task: Task, what: Any, timeout: float) -> tuple[Verdict, bool]:
        """And whether the host was replaced."""
        state, is_usable = state_of_ranks(), False
        try:
            verdict, is_usable = self.fork(size, timeout).run(size, task, state, what, timeout)
        finally:
            if not is_usable:
                self.close()
        return verdict, not is_usable

    def close(self) -> None:
        if self.host is not None and self.owner == os.getpid():
            self.host.close()
            self.host = None


def run_simulated(size: int, task: Task, body: Callable[[int], Any], render: Callable[[BaseException], Any], timeout: float,
                  capture: Capture) -> Verdict:
    """Forks a process for one test."""
    host = Host(lambda rank, _: (functools.partial(body, rank), render), capture)
    try:
        return host.run(size, task, State(), None, timeout)[0]
    finally:
        host.close()
