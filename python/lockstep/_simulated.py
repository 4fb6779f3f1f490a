"""Worlds of simulated ranks: threads of one forked process that take turns, whose collectives are carried in memory."""
from __future__ import annotations

import ctypes
import functools
import io
import json
import logging
import os
import random
import sys
import threading
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import torch
import torch.distributed as dist
from lockstep_recorder import _state

from . import _calls, _rank
from ._processes import Capture, Process, ask_for_stacks
from ._rank import Outcome, Task
from ._verdict import RankEnd, Verdict, judge, ranks_in_words

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


class OfRank(logging.Handler):
    """What Python has one of in a process, as a rank that does not run has it."""

    def __init__(self, rank: int) -> None:
        super().__init__()
        self.rank, self.thread = rank, 0
        self.random = random.getstate()
        numpy = sys.modules.get("numpy")
        self.numpy = numpy.random.get_state() if numpy else None
        self.recorder: Any = _state.recorder
        self.streams = io.StringIO(), io.StringIO()
        self.is_running = False

    def swap(self) -> None:
        """Exchanges it with the process's: as the rank's turn begins, and as it ends."""
        self.is_running = not self.is_running
        held = random.getstate()
        random.setstate(self.random)
        self.random = held
        if self.numpy is not None:
            numpy = sys.modules["numpy"]
            self.numpy, now = numpy.random.get_state(), self.numpy
            numpy.random.set_state(now)
        self.recorder, _state.recorder = _state.recorder, self.recorder
        streams = sys.stdout, sys.stderr
        sys.stdout, sys.stderr = self.streams  # type: ignore[assignment]
        self.streams = streams  # type: ignore[assignment]


class Turns:
    """The ranks of one world. The library calls `run` in each rank's thread, and `begin` and `end` around each of its turns."""

    def __init__(self, size: int, perform: Callable[[int], Outcome]) -> None:
        self.perform = perform
        self.ranks = [OfRank(rank) for rank in range(size)]
        self.outcomes: list[Outcome | None] = [None] * size
        self.finished: list[int] = []  # In their order.

    def begin(self, rank: int) -> None:
        self.ranks[rank].swap()
        os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank))

    def end(self, rank: int) -> None:
        self.ranks[rank].swap()

    def run(self, rank: int, group: Any) -> None:
        self.ranks[rank].thread = threading.get_ident()
        dist.distributed_c10d._world.pg_names[group] = "default"
        outcome = self.perform(rank)
        self.outcomes[rank] = outcome
        self.finished.append(rank)
        if outcome.kind == "failed":
            raise RuntimeError(outcome.line)  # Its peers see it leave.

    def stack(self, rank: int) -> str:
        """Of a rank that is frozen, innermost call first as faulthandler has it."""
        frame = sys._current_frames().get(self.ranks[rank].thread)
        if frame is None:
            return ""
        lines = [f'  File "{each.filename}", line {each.lineno} in {each.name}' for each in reversed(traceback.extract_stack(frame))]
        return "\n".join([f"Thread 0x{self.ranks[rank].thread:016x} (most recent call first):", *lines])


def refuse(what: str) -> Callable[..., Any]:
    def refused(*_: Any, **__: Any) -> Any:
        raise NotImplementedError(f"{what} is not there for simulated ranks: use the tier cold or warm")
    return refused


def new_group(ranks: Any = None, timeout: Any = None, backend: Any = None, pg_options: Any = None, use_local_synchronization: bool = False,
              group_desc: Any = None, device_id: Any = None, **_: Any) -> Any:
    """In place of torch.distributed's, which would connect processes."""
    world = dist.group.WORLD
    members = sorted(ranks) if ranks is not None else list(range(dist.get_world_size()))
    part = world.split_group(members, group_name=f"ranks {','.join(map(str, members))}")
    if part is None:
        return dist.GroupMember.NON_GROUP_MEMBER
    known = dist.distributed_c10d._world
    known.pg_map[part] = ("gloo", None)
    known.pg_names[part] = part.group_name
    known.pg_group_ranks[part] = {rank: number for number, rank in enumerate(members)}
    known.pg_backend_config[part] = "cpu:gloo"
    return part


def settle() -> None:
    """Once in the process of a world."""
    for name in ("init_process_group", "destroy_process_group"):
        setattr(dist, name, refuse(f"torch.distributed.{name}"))
    dist.new_group = dist.distributed_c10d.new_group = new_group
    torch.set_num_threads(1)


def serve(size: int, task: Task, body: Callable[[int], Any], render: Callable[[BaseException], Any], progress: _calls.Progress,
          connection: Connection) -> None:
    """Runs one test in this process, and sends how each rank ended."""
    os.environ.update(WORLD_SIZE=str(size), LOCAL_WORLD_SIZE=str(size))
    settle()
    turns = Turns(size, lambda rank: _rank.perform(task, rank, size, progress, functools.partial(body, rank), render))
    report = simulate(size, turns)
    for rank, of_rank in enumerate(turns.ranks):
        stdout, stderr = of_rank.streams
        connection.send((turns.outcomes[rank], report["ranks"][rank], "" if turns.outcomes[rank] else turns.stack(rank),
                         {"stdout": stdout.getvalue(), "stderr": stderr.getvalue()}))
    connection.send((turns.finished, report["diverges"], report["ladder"]))


def run_simulated(size: int, task: Task, body: Callable[[int], Any], render: Callable[[BaseException], Any], timeout: float,
                  capture: Capture) -> Verdict:
    """Forks a process for one test, in which the ranks are threads."""
    import torch._dynamo  # noqa: F401  As in a World.
    _calls.install()
    progress = _calls.Progress(size)
    process = Process(functools.partial(serve, size, task, body, render, progress), capture)
    ends = [RankEnd() for _ in range(size)]
    try:
        deadline = time.monotonic() + timeout
        for rank in range(size):
            if not process.connection.poll(max(0.0, deadline - time.monotonic())):
                return late(process, ends, progress, timeout)
            ends[rank].outcome, ended, ends[rank].stack, ends[rank].printed = process.connection.recv()
            ends[rank].progress = progress.read(rank)
            ends[rank].was_hung = ends[rank].outcome is None
        finished, diverges, ladder = process.connection.recv()
    except (EOFError, ConnectionResetError):
        process.reap()
        ends[0].status, ends[0].stack = process.status, process.stack()
        return judge(ends[:1])
    finally:
        process.close()
    return verdict_of(ends, finished, diverges, ladder)


def late(process: Process, ends: list[RankEnd], progress: _calls.Progress, timeout: float) -> Verdict:
    """Of a process whose ranks use up the time of this test."""
    ask_for_stacks([process])
    for rank, end in enumerate(ends):
        end.progress, end.was_hung, end.seconds = progress.read(rank), end.outcome is None, timeout
    ends[0].stack = process.stack()
    return judge(ends)


def verdict_of(ends: list[RankEnd], finished: list[int], diverges: str, ladder: list[str]) -> Verdict:
    verdict = judge(ends)
    failed = [rank for rank in finished if (outcome := ends[rank].outcome) is not None and outcome.kind == "failed"]
    waiting = [rank for rank, end in enumerate(ends) if end.outcome is None]
    if failed:
        verdict.blamed, verdict.sentence = failed[0], f"rank {failed[0]} of {len(ends)} failed"
    elif waiting:
        verdict.sentence = f"{ranks_in_words(waiting)} of {len(ends)} wait for ever" + (f": {diverges}" if diverges else "")
    if waiting and ladder:
        verdict.states += ladder
    return verdict
