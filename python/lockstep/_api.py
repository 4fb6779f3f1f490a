"""Worlds for tests: the decorator of pytest's tests, and a function for all others."""
from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Sequence
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


def check_sizes(sizes: Any) -> None:
    if not isinstance(sizes, Sequence) or not sizes or not all(isinstance(size, int) and size > 0 for size in sizes):
        raise ValueError(f"worlds are one or more numbers of ranks, such as (2, 3), not {sizes!r}")


def check_timeout(seconds: Any) -> None:
    if not isinstance(seconds, (int, float)) or not 0 < seconds < math.inf:
        raise ValueError(f"a timeout is a number of seconds above 0, not {seconds!r}")


def name_of(function: Any) -> str:
    """A partial function or an object that is called has that of its class."""
    return f"{function.__module__}.{getattr(function, '__qualname__', type(function).__qualname__)}"


def world(*sizes: int, tier: str | None = None, timeout: float | None = None) -> pytest.MarkDecorator:
    """A test runs once for each of these world sizes, and every rank runs its body. `rank` and `world_size` are fixtures.

    tier: "cold" forks the ranks for this test; "warm" takes ranks that are kept; "sim" runs them as threads of one kept process
        that take turns, with collectives in memory; what --lockstep-tier says unless given.
    timeout: seconds after which a test that has not ended fails.
    """
    import pytest
    check_sizes(sizes)
    if tier is not None:
        tier_named(tier)
    if timeout is not None:
        check_timeout(timeout)
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
    check_sizes((size,))
    check_timeout(timeout)
    if not callable(function):
        raise TypeError(f"run_world calls a function of the rank, and {function!r} is none")
    task = Task(name_of(function), keeps_warnings=False)
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
