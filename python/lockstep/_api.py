"""Worlds for tests: the decorator of pytest's tests, and a function for all others."""
from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

TIERS = "cold", "warm", "sim"
LAUNCHED = "launched"
TIMEOUT_SECONDS = 60.0


def tier_named(name: str) -> str:
    if name in TIERS:
        return name
    if name == LAUNCHED:
        raise ValueError(f"the tier {LAUNCHED} is one of a whole run of pytest, --lockstep-tier {LAUNCHED}; the others are {', '.join(TIERS)}")
    raise ValueError(f"there is no tier {name!r}; the tiers are {', '.join(TIERS)}")


def checked_sizes(sizes: tuple[int, ...]) -> tuple[int, ...]:
    if not sizes or not all(isinstance(size, int) and size > 0 for size in sizes):
        raise ValueError(f"lockstep.world{sizes} needs the sizes of one or more worlds, such as lockstep.world(2, 3)")
    return sizes


def world(*sizes: int, tier: str | None = None, timeout: float | None = None) -> pytest.MarkDecorator:
    """A test runs once for each of these world sizes, and every rank runs its body. `rank` and `world_size` are fixtures.

    tier: "cold" forks the ranks for this test; "warm" takes ranks that are kept; "sim" runs them as threads of one kept process
        that take turns, with collectives in memory; what --lockstep-tier says unless given.
    timeout: seconds after which a test that has not ended fails.
    """
    import pytest
    checked_sizes(sizes)
    if tier is not None:
        tier_named(tier)
    return pytest.mark.lockstep_world(*sizes, tier=tier, timeout=timeout)


def run_world(function: Callable[..., Any], size: int, *args: Any, tier: str = "cold", timeout: float = TIMEOUT_SECONDS) -> list[Any]:
    """Calls function(rank, *args) on each of `size` ranks, forked from this process, and returns what the ranks returned.

    An exception of a rank is raised here, with its traceback and the other ranks' states as notes; WorldError is, where ranks
    hang, died or disagree. In the tiers `warm` and `sim` the ranks are kept for the next call; they know what this process had
    loaded at the first one.
    """
    __tracebackhide__ = True
    from . import _worlds
    from ._processes import Capture
    from ._rank import Task, no_report
    tier_named(tier)
    checked_sizes((size,))
    task = Task(f"{function.__module__}.{function.__qualname__}", keeps_warnings=False)
    if tier != "cold" and (sent := pickled((function, args), tier)):
        verdict = _worlds.run_kept(tier, size, task, sent, timeout)
    else:
        verdict = _worlds.run_once(tier, size, task, lambda rank: function(rank, *args), no_report, timeout, Capture.NOTHING)
    if verdict.kind == "passed":
        return [pickle.loads(end.outcome.value) for end in verdict.ends if end.outcome is not None]
    raise with_notes(verdict)


def pickled(value: Any, tier: str) -> bytes:
    """Returns nothing where simulated ranks need not have it pickled, since a process is forked for them."""
    try:
        return pickle.dumps(value)
    except Exception:
        if tier != "sim":
            raise
        return b""


def with_notes(verdict: Any) -> BaseException:
    error: BaseException = verdict.error()
    error.__notes__ = [*getattr(error, "__notes__", []), *verdict.notes()]
    return error
