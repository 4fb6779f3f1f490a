"""The collectives of a rank: the recorder sees them, a test can ask for them, and so can the process that watches the ranks."""
from __future__ import annotations

import json
import math
import mmap
import os
import re
import struct
from dataclasses import dataclass
from typing import Any

import torch
from lockstep_recorder import _install, _state
from lockstep_recorder._collectives import Collectives
from lockstep_recorder._history import History
from lockstep_recorder._launch import clock
from lockstep_recorder._records import Recorder
from lockstep_recorder._training import Training

from . import _inject

SLOT_BYTES = 4096


class Progress:
    """Shared memory in which each rank says how far its collectives have come."""

    def __init__(self, size: int) -> None:
        self.memory = mmap.mmap(-1, size * SLOT_BYTES)

    def write(self, rank: int, what: dict[str, Any]) -> None:
        text = json.dumps(what).encode()
        if len(text) <= SLOT_BYTES - 4:
            begin = rank * SLOT_BYTES
            self.memory[begin:begin + 4 + len(text)] = struct.pack("<I", len(text)) + text

    def read(self, rank: int) -> dict[str, Any]:
        begin = rank * SLOT_BYTES
        length = struct.unpack("<I", self.memory[begin:begin + 4])[0]
        try:
            return dict(json.loads(self.memory[begin + 4:begin + 4 + length]))
        except ValueError:  # Not yet written, or just being written.
            return {}


@dataclass(frozen=True)
class Collective:
    """One that this rank issued. What DistributedDataParallel sends unasked is one for each construction, forward with
    buffers and backward: `ddp_construction`, `ddp_buffers`, `ddp_backward`."""

    kind: str  # As c10d names it: "allreduce", "broadcast", "_allgather_base", ...
    bytes: int  # That this rank sends; 0 where the recorder cannot know.
    group_size: int


def bytes_of(dtype: str, elements: int) -> int:
    bits = re.search(r"(\d+)", dtype)
    return elements * int(bits[1]) // 8 if bits else elements * (dtype == "bool")


def ranks_of(group: str, world_size: int) -> list[int]:
    return [int(rank) for rank in re.findall(r"\d+", group)] if group != "world" else list(range(world_size))


def timeout_of(group: Any) -> float:
    """The seconds after which a group ends a collective; infinity for one that does not say."""
    held: Any = group if group is not None else torch.distributed.group.WORLD
    options = getattr(held._get_backend(torch.device("cpu")), "options", None)
    return float(options._timeout.total_seconds()) if options is not None else math.inf


class Issued(Collectives):  # type: ignore[misc]
    """Collectives as the recorder sees them, which are also counted and shown to the process that watches."""

    def __init__(self, record: RankRecorder) -> None:
        super().__init__(record)
        self.site, self.is_async, self.timeout = "", False, math.inf
        self.seen: list[Collective] = []
        self.last: dict[str, Any] = {}
        self.numbers: dict[str, int] = {}  # Of each group's last collective, without what two ranks send each other.

    def collective(self, names: list[str], tensor: str, op: str, /, *args: Any, **kwargs: Any) -> Any:
        given = {**dict(zip(names, args)), **kwargs}
        self.is_async, self.timeout = bool(given.get("async_op")), timeout_of(given.get("group"))
        return super().collective(names, tensor, op, *args, **kwargs)

    def issue(self, op: str, group: str = "world", dtype: str = "", elements: int = 0, root: int = -1) -> Any:
        done = super().issue(op, group, dtype, elements, root)
        world = torch.distributed.get_world_size()
        self.seen.append(Collective(op, bytes_of(dtype, elements), len(ranks_of(group, world))))
        about: dict[str, Any] = {"op": op, "group": group, "at": self.site, "timeout": self.timeout}
        if op in ("send", "recv"):
            about["peer"] = root
        else:
            about["of"] = f"{elements} {dtype}"
            about["number"] = self.numbers[group] = self.numbers.get(group, -1) + 1
        self.site, self.timeout = "", math.inf
        self.last = about
        self.show(about, "issued" if self.is_async and not op.startswith("ddp_") else "waits")

        def finished() -> None:
            done()
            self.show(about, "done")
        finished.about = about  # type: ignore[attr-defined]
        return finished

    def take_back(self, state: str = "not issued") -> None:
        """The last one was not issued after all."""
        if "number" in self.last:
            self.numbers[self.last["group"]] -= 1
        if self.last:
            self.show(self.last, state)

    def wait(self, work: Any, /, *args: Any, **kwargs: Any) -> Any:
        pending = self.pending.get(work)
        if pending is not None:
            self.show(pending.about, "waits")
        return super().wait(work, *args, **kwargs)

    def show(self, about: dict[str, Any], state: str) -> None:
        self.record.progress.write(self.record.rank, {**about, "state": state, "groups": self.numbers})


class Nowhere:
    """In place of a history's file, where a test is not recorded."""

    def __init__(self) -> None:
        self.process, self.has_ended, self.path, self.bytes, self.count = os.getpid(), False, "", 0, 0

    def append(self, kind: int, header: dict[str, Any], payload: bytes = b"") -> None:
        pass

    def open(self, rank: int, world: int) -> None:
        pass

    def end(self, kind: str, why: str = "") -> None:
        self.has_ended = True


class Unrecorded(Training):  # type: ignore[misc]
    """The training of a rank that records nothing: which of its backward passes send gradients."""

    def record_parameters(self, *_: Any, **__: Any) -> None:
        pass

    describe = record_forward = record_terms = record_inputs = leave_bucket = take = record_parameters

    def before_backward(self, model: Any) -> tuple[Any, dict[str, Any]]:
        return None, {}

    def end_backward(self, model: Any, *_: Any) -> None:
        model.kind = None


@dataclass(frozen=True)
class Recording:
    """The recording of a test: its folder, and what goes into it."""

    folder: str
    values_steps: int = 0
    perturbed: int = 0


class RankRecorder(Recorder):  # type: ignore[misc]
    """The recorder of one rank in one test. Without a recording it knows of collectives alone."""

    def __init__(self, progress: Progress, rank: int, world_size: int, name: str, recording: Recording | None) -> None:
        given = recording or Recording("")
        folder = os.path.join(given.folder, f"perturbed-{given.perturbed}") if given.perturbed else given.folder
        about = {"perturbed": given.perturbed} if given.perturbed else {}
        history = Nowhere() if recording is None else History(
            folder, writer="lockstep_recorder.py", torch=str(torch.__version__), clock=clock(), program=name, **about)
        super().__init__(history, (folder, name, given.values_steps, given.perturbed))
        self.progress, self.rank, self.is_recording, self.is_known_to_dynamo = progress, rank, recording is not None, True
        if not self.is_recording:
            self.training = Unrecorded(self)
        self.planned: dict[int, tuple[str, float]] = {}  # Failures of collectives, by number.
        self.collectives = Issued(self)
        progress.write(rank, {"groups": {}})
        history.open(rank, world_size)
        self.fact("process group", rank=rank, world=world_size, backend=torch.distributed.get_backend())

    def check_planned(self) -> None:
        """Throws where a test has ended before a failure that it planted: it would prove nothing."""
        for at, (kind, _) in self.planned.items():
            raise RuntimeError(f"lockstep.inject({kind!r}, rank={self.rank}, at={at}) has planted nothing: this rank issued "
                               f"{len(self.collectives.seen)} collectives, and number {at} is none that the test issued itself")

    def fact(self, name: str, **values: Any) -> None:
        if name == "call":
            self.collectives.site = values["at"]
        if self.is_recording:
            super().fact(name, **values)

    def digests(self, owner: str, role: str, named: Any) -> None:
        if self.is_recording:
            super().digests(owner, role, named)

    def is_due(self, named: Any) -> bool:
        return self.is_recording and bool(super().is_due(named))


def install() -> None:
    """Puts the recorder's hooks into PyTorch, which do nothing in a process that is no rank."""
    if _state.recorder is None:
        off = object.__new__(Recorder)
        off.generator, off.is_known_to_dynamo, off.history = None, False, Nowhere()
        off.history.has_ended = True
        _state.recorder = off
        _inject.install()
        _install.install()
        off.is_on()  # Has torch._dynamo pass over the hooks, in all ranks that are forked from this process.


def begin(recorder: RankRecorder) -> None:
    _state.recorder = recorder
    if recorder.generator is not None:
        _install.install_moves()


def end(why: str) -> None:
    recorder = _state.recorder
    recorder.history.end("threw" if why else "returned", why)
    if recorder.is_recording:
        os.close(recorder.history.file)  # Which a kept rank would be said to have left behind.


def collectives() -> list[Collective]:
    """Returns what this rank has issued in this test so far, in order."""
    if not isinstance(_state.recorder, RankRecorder):
        raise RuntimeError("lockstep.collectives() is for a rank: within a test of @lockstep.world or a function of run_world")
    return list(_state.recorder.collectives.seen)


