"""A test in a world: what was asked for, what its ranks call, and how kept ranks find it."""
from __future__ import annotations

import inspect
import pickle
import types
from collections.abc import Callable
from typing import Any

import pytest

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

    def __init__(self, items: list[pytest.Item]) -> None:
        self.items = {item.nodeid: item for item in items}

    def __call__(self, rank: int, what: tuple[str, bytes]) -> Rendered:
        nodeid, given = what
        item: Any = self.items[nodeid]
        args, instance, has_monkeypatch = pickle.loads(given)
        function, owner = body_of(item)
        if instance is not None:  # Simulated ranks are in one process: each has an object of its own.
            owner = object.__new__(type(owner))
            vars(owner).update(instance)

        def body() -> None:
            with pytest.MonkeyPatch.context() as monkeypatch:
                own = {"monkeypatch": monkeypatch} if has_monkeypatch else {}
                call(bound(function, owner), rank, {**args, **own})
        return body, lambda error: item.repr_failure(pytest.ExceptionInfo.from_exception(error))


def body_of(item: Any) -> tuple[Callable[..., Any], Any]:
    """The function that the ranks call, and the object whose method it is."""
    return item.stash.get(body_key, getattr(item.obj, "__func__", item.obj)), getattr(item.obj, "__self__", None)


def bound(function: Callable[..., Any], owner: Any) -> Callable[..., Any]:
    return function if owner is None else types.MethodType(function, owner)


def call(function: Any, rank: int, args: dict[str, Any]) -> None:
    if inspect.isawaitable(function(**{**args, **({"rank": rank} if "rank" in args else {})})):
        raise TypeError("an async function cannot be a test in a world: nothing awaits it there")


def pickled_for_kept_ranks(item: Any, args: dict[str, Any]) -> tuple[bytes, str]:
    """Returns what the ranks need, or why they cannot have it."""
    monkeypatch = item.funcargs.get("monkeypatch")
    if monkeypatch is not None and vars(monkeypatch) != vars(pytest.MonkeyPatch()):
        return b"", "a fixture has changed the process of pytest by monkeypatch"
    owner = body_of(item)[1]
    instance = vars(owner) if owner is not None and not isinstance(owner, type) else None
    given = {name: None if name == "rank" else value for name, value in args.items() if name != "monkeypatch"}
    for name, value in [*given.items(), ("self", instance)]:
        try:
            pickle.loads(pickle.dumps(value))
        except Exception as error:
            return b"", f"kept ranks cannot have the value of {name!r}, which cannot be pickled ({type(error).__name__}: {error})"
    return pickle.dumps((given, instance, "monkeypatch" in args)), ""
