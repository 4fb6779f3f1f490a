"""A test in a world: what was asked for, what its ranks call, and how kept ranks find it."""
from __future__ import annotations

import pickle
import sys
import types
import warnings
from collections.abc import Callable
from typing import Any, Literal

import pytest

from ._processes import subtest

MARK = "lockstep_world"
body_key = pytest.StashKey["Callable[..., Any]"]()  # Of a test that @given made.
Rendered = tuple[Callable[[], Any], Callable[[BaseException], Any]]


def asked(config: pytest.Config, name: str) -> str:
    given = config.getoption("lockstep_" + name)
    return str(given if given is not None else config.getini("lockstep_" + name))


def setting(item: pytest.Item, name: str) -> str:
    for mark in item.iter_markers(MARK):
        if mark.kwargs.get(name) is not None:
            return str(mark.kwargs[name])
    return asked(item.config, name)


def size_of(item: pytest.Item) -> int:
    return int(item.callspec.params["world_size"])  # type: ignore[attr-defined]


class Kept:
    """How a rank that is kept finds a test: the items were there when it was forked."""

    def __init__(self, items: list[Any]) -> None:
        self.items, self.spaces = {item.nodeid: item for item in items}, dict[Any, dict[str, Any]]()

    def remember(self) -> None:
        """Keeps what modules and classes of tests hold as fixtures begin."""
        self.spaces = {space: dict(vars(space)) for item in self.items.values() for space in spaces_of(item)}

    def changes(self, item: Any) -> str:
        """Names that fixtures have set there; ranks that are kept do not know of it."""
        found = [f"{space.__name__}.{name}" for space in spaces_of(item) for before, now in [(self.spaces[space], vars(space))]
                 for name in sorted(before.keys() | now.keys()) if before.get(name) is not now.get(name) and not name.startswith("__")]
        return f"a fixture has changed {', '.join(found)}" if found else ""

    def __call__(self, rank: int, what: tuple[str, bytes]) -> Rendered:
        nodeid, given = what
        item: Any = self.items[nodeid]
        args, instance, filters, has_monkeypatch = pickle.loads(given)
        function, owner = body_of(item)
        if instance is not None:  # Simulated ranks are in one process: each has an object of its own.
            owner = object.__new__(type(owner))
            vars(owner).update(instance)

        def body() -> None:
            with pytest.MonkeyPatch.context() as monkeypatch, warnings.catch_warnings():
                warnings.resetwarnings()
                warnings.filters += filters
                report_of(item, "setup")  # Plugins begin with it.
                own = {"monkeypatch": monkeypatch} if has_monkeypatch else {}
                call(item, function, owner, rank, {**args, **own})
        return body, renderer(item)


def renderer(item: Any) -> Callable[[BaseException], Any]:
    """Returns the function that makes pytest's report of an exception of a rank."""
    return lambda error: item.repr_failure(pytest.ExceptionInfo.from_exception(error))


def body_of(item: Any) -> tuple[Callable[..., Any], Any]:
    """The function that the ranks call, and the object whose method it is."""
    return item.stash.get(body_key, getattr(item.obj, "__func__", item.obj)), getattr(item.obj, "__self__", None)


def spaces_of(item: Any) -> list[Any]:
    """The module and the class of a test."""
    return [space for space in (getattr(item, "module", None), getattr(item, "cls", None)) if space is not None]


class Subtests:
    """The fixture `subtests` of a rank."""

    test = subtest


def of_rank(item: Any, rank: int) -> dict[str, Any]:
    """The arguments that each rank has for itself, where they are no parameters of the test."""
    own = {"rank": rank, "subtests": Subtests()}
    return {name: value for name, value in own.items() if name not in item.callspec.params}


def call(item: Any, function: Callable[..., Any], owner: Any, rank: int, args: dict[str, Any]) -> None:
    """Calls the body, and fails as pytest does that has called it."""
    own = {**of_rank(item, rank), "world_size": size_of(item)}
    result = (function if owner is None else types.MethodType(function, owner))(**{name: own.get(name, value) for name, value in args.items()})
    if hasattr(result, "__await__") or hasattr(result, "__aiter__"):
        getattr(result, "close", bool)()
        raise TypeError("an async function cannot be a test in a world: nothing awaits it there")
    if result is not None:
        item.warn(pytest.PytestReturnNotNoneWarning(f"{item.nodeid} returned a {type(result).__name__}: `assert` in place of `return`?"))
    getattr(sys.modules.get("_pytest.threadexception"), "collect_thread_exception", bool)(item.config)
    report = report_of(item, "call")
    if report.failed and "[XPASS(strict)]" not in report.longreprtext:
        raise AssertionError(report.longreprtext)


def report_of(item: Any, when: Literal["setup", "call"]) -> pytest.TestReport:
    """The report of a phase that threw nothing, which plugins of soft assertions fail."""
    made: pytest.TestReport = item.ihook.pytest_runtest_makereport(item=item, call=pytest.CallInfo.from_call(lambda: None, when))
    return made


def pickled_for_kept_ranks(item: Any, args: dict[str, Any], kept: Kept) -> tuple[bytes, str]:
    """Returns what the ranks need, or why they cannot have it."""
    if change := kept.changes(item):
        return b"", change
    monkeypatch = item.funcargs.get("monkeypatch")
    if monkeypatch is not None and vars(monkeypatch) != vars(pytest.MonkeyPatch()):
        return b"", "a fixture has changed the process of pytest by monkeypatch"
    owner = body_of(item)[1]
    instance = vars(owner) if owner is not None and not isinstance(owner, type) else None
    filters = list(warnings.filters)
    given = {name: value for name, value in args.items() if name != "monkeypatch"} | dict.fromkeys(of_rank(item, 0).keys() & args.keys())
    for name, value in [*given.items(), ("self", instance), ("warnings.filters", filters)]:
        try:
            pickle.loads(pickle.dumps(value))
        except Exception as error:
            return b"", f"kept ranks cannot have the value of {name!r}, which cannot be pickled ({type(error).__name__}: {error})"
    return pickle.dumps((given, instance, filters, "monkeypatch" in args)), ""
