"""Failures that a test plants in its own collectives."""
from __future__ import annotations

import functools
import os
import signal
import time
from collections.abc import Callable
from typing import Any

import torch.distributed as dist
from lockstep_recorder import _install, _state
from lockstep_recorder._collectives import COLLECTIVES
from lockstep_recorder._hooks import is_compiling

KINDS = "kill", "throw", "delay", "drop"


class InjectedError(RuntimeError):
    """The exception that `inject("throw", ...)` throws in place of a collective."""

    __module__ = "lockstep"


class Dropped:
    """The work of a collective that was not issued."""

    def wait(self, *_: Any) -> bool:
        return True

    def is_completed(self) -> bool:
        return True


def inject(kind: str, *, rank: int, at: int, seconds: float = 1.0) -> None:
    """Plants a failure in this test's collective number `at` on one rank: the index that it has in `lockstep.collectives()`. Every
    rank calls this. "kill" kills the rank by SIGKILL before it issues the collective, "throw" throws InjectedError in its place, "delay"
    issues it `seconds` later, and "drop" does not issue it. What DistributedDataParallel sends unasked is left alone.
    """
    if kind not in KINDS:
        raise ValueError(f"there is no failure {kind!r} to inject; the kinds are {', '.join(KINDS)}")
    planned = getattr(_state.recorder, "planned", None)
    if planned is None:
        raise RuntimeError("lockstep.inject() is for a rank: within a test of @lockstep.world or a function of run_world")
    if not 0 <= rank < dist.get_world_size():
        raise ValueError(f"there is no rank {rank} in a world of {dist.get_world_size()} to inject a failure into")
    if dist.get_rank() == rank:
        planned[at] = kind, seconds


def injectable(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def function(*args: Any, **kwargs: Any) -> Any:
        if is_compiling():  # Dynamo reads this, and rewrites the original.
            return original(*args, **kwargs)
        planned = getattr(_state.recorder, "planned", None)  # None in a process that is no rank.
        kind, seconds = planned.pop(len(_state.recorder.collectives.seen) - 1, ("", 0.0)) if planned else ("", 0.0)
        if kind and kind != "delay":
            _state.recorder.collectives.take_back()
        if kind == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if kind == "throw":
            raise InjectedError(f"{original.__name__}: planted by lockstep.inject")
        if kind == "drop":
            return Dropped() if kwargs.get("async_op") else None
        if kind == "delay":
            time.sleep(seconds)
        try:
            return original(*args, **kwargs)
        except BaseException:
            if planned is not None:
                _state.recorder.collectives.take_back("failed")
            raise
    return function


def install() -> None:
    """Puts `injectable` around PyTorch's functions, under every name that modules have for them."""
    distributed = dist.distributed_c10d
    originals = [getattr(distributed, name) for name in COLLECTIVES if hasattr(distributed, name)]
    replaced = {id(original): injectable(original) for original in originals}
    for space in [vars(distributed), vars(dist), *_install.spaces()]:
        for key, value in list(space.items()):
            if id(value) in replaced:
                space[key] = replaced[id(value)]
