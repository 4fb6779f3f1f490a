"""A rank joins the world, runs tests and reports the outcome of each."""
from __future__ import annotations

import contextlib
import datetime
import functools
import io
import logging
import os
import pickle
import random
import sys
import traceback
import types
import unittest
import warnings
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import lockstep_recorder
import torch
import torch.distributed as dist

from lockstep_recorder._history import told

from . import _calls

LOG_FORMAT = "%(levelname)-8s %(name)s:%(filename)s:%(lineno)d %(message)s"
RANK_FILE = __file__
OURS = os.path.dirname(__file__), os.path.dirname(lockstep_recorder.__file__)  # Folders.
SUCCEEDED = "passed", "skipped", "xfailed", "rejected"
Render = Callable[[BaseException], Any]  # Makes the report of a failure.


@dataclass
class Outcome:
    """The outcome of a test on one rank. All of it can be sent to another process."""

    kind: str  # One of SUCCEEDED, or "failed".
    line: str = ""  # Why, in one line.
    value: bytes = b""  # Pickled.
    error: bytes = b""  # Pickled, where that can be.
    traceback: str = ""
    place: tuple[str, int, str] | None = None  # File, line and function where it was raised.
    report: Any = None  # What pytest prints of the failure.
    log: str = ""
    warnings: list[tuple[str, str, str, str, int]] = field(default_factory=list)  # Module and name of its class, text, file and line.
    left_behind: list[str] = field(default_factory=list)
    is_usable: bool = True  # The rank can run another test.
    updates: int = 0  # Of optimizers.
    notes: list[str] = field(default_factory=list)  # These three are for Hypothesis.
    events: dict[str, Any] = field(default_factory=dict)
    targets: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Task:
    """One test, as each rank gets it."""

    name: str
    recording: _calls.Recording | None = None
    keeps_warnings: bool = True
    seeds_alike: bool = False  # All ranks begin with rank 0's.
    is_example: bool = False  # One of many that Hypothesis has drawn.


def join_world(rank: int, world_size: int, store: int, progress: _calls.Progress, timeout: float) -> None:
    """Gloo's default group, of which torch.distributed and the environment say the same as under torchrun. `store` is a file
    without a name, so that nothing is left of it."""
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world_size), LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE=str(world_size))
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.set_num_threads(1)  # As torchrun has it; and the threads of OpenMP do not survive a fork.
    progress.write(rank, {"groups": {}})
    held = dist.FileStore(f"/proc/self/fd/{store}", world_size)  # type: ignore[attr-defined]
    # The process that watches the ranks has the deadline, and knows more of them than Gloo.
    dist.init_process_group("gloo", rank=rank, world_size=world_size, store=held,
                            timeout=datetime.timedelta(seconds=timeout + 60))
    dist.barrier()  # A rank whose test is short would leave while its peers connect.


def seed(name: str, rank: int) -> None:
    """Sets Python's, NumPy's and PyTorch's generators to a number that the test and the rank have for themselves."""
    number = (zlib.crc32(name.encode()) + rank) % 2**32
    random.seed(number)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(number)
    if has_gpus():
        torch.manual_seed(number)
    else:  # Which takes 2 ms where PyTorch remembers the call for devices that are not there.
        torch.default_generator.manual_seed(number)


@functools.cache
def has_gpus() -> bool:
    return torch.cuda.device_count() > 0


@contextlib.contextmanager
def kept_warnings(outcome: Outcome) -> Iterator[None]:
    with warnings.catch_warnings(record=True) as found:
        try:
            yield
        finally:
            outcome.warnings = [(each.category.__module__, each.category.__name__, str(each.message), each.filename, each.lineno) for each in found]


def remarks(task: Task, outcome: Outcome) -> contextlib.AbstractContextManager[None]:
    if not task.is_example:
        return contextlib.nullcontext()
    from ._given import on_rank
    return on_rank(outcome)


def no_report(_: BaseException) -> None:
    """Makes none, where no runner of tests asks for it."""


def perform(task: Task, rank: int, world_size: int, progress: _calls.Progress, body: Callable[[], Any], render: Render) -> Outcome:
    """Runs a test on this rank. What `render` makes of a failure is the outcome's report."""
    log, outcome = io.StringIO(), Outcome("passed")
    handler = logging.StreamHandler(log)
    handler.setFormatter(logging.Formatter(LOG_FORMAT))
    logging.getLogger().addHandler(handler)
    recorder = _calls.RankRecorder(progress, rank, world_size, task.name, task.recording)
    seed(task.name, 0 if task.seeds_alike else rank)
    _calls.begin(recorder)
    try:
        with kept_warnings(outcome) if task.keeps_warnings else contextlib.nullcontext(), remarks(task, outcome):
            value = body()
            recorder.check_planned()
        outcome.value = pickle.dumps(value)
    except BaseException as error:
        of_test = without_ours(error.__traceback__)
        error.__traceback__ = of_test or error.__traceback__
        classify(outcome, error)
        outcome.error = pickled(error)
        if outcome.kind == "failed":
            outcome.place = place_of(error.__traceback__)
            outcome.traceback = "".join(traceback.format_exception(error))
            report = render(error) if of_test else None  # Of what this package says itself the sentence is enough.
            outcome.report = report if can_be_sent(report) else str(report)
    finally:
        _calls.end(outcome.line if outcome.kind == "failed" else "")
        logging.getLogger().removeHandler(handler)
    outcome.log, outcome.updates = log.getvalue(), recorder.step
    return outcome


def without_ours(trace: types.TracebackType | None) -> types.TracebackType | None:
    """A traceback without the frames that run a test or watch its collectives."""
    kept = []
    while trace is not None:
        if os.path.dirname(trace.tb_frame.f_code.co_filename) not in OURS:
            kept.append(trace)
        trace = trace.tb_next
    for each, following in zip(kept, [*kept[1:], None]):
        each.tb_next = following
    return kept[0] if kept else None


def place_of(trace: types.TracebackType | None) -> tuple[str, int, str] | None:
    innermost = traceback.extract_tb(trace)[-1:]
    return (innermost[0].filename, innermost[0].lineno or 1, innermost[0].name) if innermost else None


def classify(outcome: Outcome, error: BaseException) -> None:
    outcomes, hypothesis = sys.modules.get("_pytest.outcomes"), sys.modules.get("hypothesis.errors")
    skips = (unittest.SkipTest, outcomes.Skipped) if outcomes else (unittest.SkipTest,)
    outcome.kind = ("skipped" if isinstance(error, skips) else
                    "xfailed" if outcomes and isinstance(error, outcomes.XFailed) else
                    "rejected" if hypothesis and isinstance(error, hypothesis.UnsatisfiedAssumption) else "failed")
    outcome.line = str(error) if outcome.kind != "failed" else told(error).removesuffix(": ")


def pickled(error: BaseException) -> bytes:
    """Returns an exception's pickle if it comes back as what it was, else nothing. These two would end the run of all tests."""
    if isinstance(error, (KeyboardInterrupt, SystemExit)):
        return b""
    try:
        text = pickle.dumps(error)
        return text if type(pickle.loads(text)) is type(error) and str(pickle.loads(text)) == str(error) else b""
    except Exception:
        return b""


def can_be_sent(value: Any) -> bool:
    try:
        pickle.dumps(value)
    except Exception:
        return False
    return True


def leave_subgroups() -> None:
    world = dist.group.WORLD
    for group in list(dist.distributed_c10d._world.pg_map):
        if group is not world:
            dist.destroy_process_group(group)
    if "torch.distributed.tensor" in sys.modules:  # It keeps meshes of these groups, and takes them for equal ones of later tests.
        sys.modules["torch.distributed.tensor"].DTensor._op_dispatcher.sharding_propagator.propagate_op_sharding.cache_clear()
        getattr(torch._C, "_clear_DTensor_sharding_propagator_cache", bool)()


def group_works(seconds: float) -> bool:
    """Whether the default group carries a sum over all ranks, and a message from each to each. Every rank asks; where one has issued
    something alone before, ranks get that, or wait."""
    leave_subgroups()
    world: Any = dist.group.WORLD  # Called itself: dist's functions take longer than it does.
    me, limit, total = world.rank(), datetime.timedelta(seconds=seconds), torch.ones(1)
    others = [rank for rank in range(world.size()) if rank != me]
    received = {rank: torch.zeros(1, dtype=torch.int64) for rank in others}
    try:
        works = [world.allreduce([total]), *(world.send([torch.tensor([1_000_000 + me])], rank, 0) for rank in others)]
        works += [world.recv([message], rank, 0) for rank, message in received.items()]
        for each in works:
            each.wait(limit)
    except RuntimeError:
        return False
    return bool(total == world.size()) and all(int(message) == 1_000_000 + rank for rank, message in received.items())
