"""How pytest runs in a rank that a launcher has started."""
from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
from _pytest.config import create_terminal_writer

from . import _reports
from ._tests import body_key, body_of, call, renderer, setting, size_of

if TYPE_CHECKING:
    from ._launched import LaunchedWorld

world_key = pytest.StashKey["LaunchedWorld"]()
stderr_key = pytest.StashKey[int]()


def prepare(config: pytest.Config) -> None:
    """Raises ValueError where that cannot work."""
    if not {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"} <= set(os.environ):
        raise ValueError("the tier launched needs RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT: have a launcher start pytest, as "
                         "`lockstep launch -n 2 -- python -m pytest --lockstep-tier launched` or torchrun does")
    for option, why in (("lockstep_record", "record the whole run, by `lockstep record`"), ("numprocesses", "each rank runs all tests")):
        if config.getoption(option, None) is not None:
            raise ValueError(f"the tier launched does not go with --{option.replace('_', '-')}: {why}")
    config.stash[stderr_key] = os.dup(2)  # Before pytest captures it.
    if os.environ["RANK"] != "0":
        config.option.xmlpath = None


def begin(config: pytest.Config) -> None:
    """The first rank reports."""
    reporter: Any = config.pluginmanager.getplugin("terminalreporter")
    if stderr_key in config.stash and os.environ["RANK"] != "0" and reporter is not None:
        reporter._tw = create_terminal_writer(config, open(os.devnull, "w", encoding="utf-8"))


def end(config: pytest.Config) -> None:
    if world_key in config.stash:
        config.stash[world_key].close()


def run(item: Any, args: dict[str, Any]) -> None:
    size, timeout = int(os.environ["WORLD_SIZE"]), float(setting(item, "timeout"))
    if size != size_of(item):
        raise pytest.skip.Exception(f"the launched world has {size} ranks", _use_item_location=True)
    if body_key in item.stash:
        raise pytest.skip.Exception("each launched rank would draw examples of its own", _use_item_location=True)
    from ._launched import LaunchedWorld
    from ._rank import Task
    if world_key not in item.config.stash:
        item.config.stash[world_key] = LaunchedWorld(timeout, lambda text: report_last(item.config, text))
    world = item.config.stash[world_key]
    function, owner = body_of(item)
    verdict = world.run(Task(item.nodeid, keeps_warnings=False), lambda: call(item, function, owner, world.rank, args), renderer(item), timeout)
    if world.is_over:
        item.session.shouldfail = f"the launched world is over: {verdict.sentence}"
    if verdict.kind != "passed":
        _reports.raise_in_place(verdict)


def report_last(config: pytest.Config, text: str) -> None:
    """Where the test of this process never ends, and pytest reports nothing any more."""
    reporter: Any = config.pluginmanager.getplugin("terminalreporter")
    failed = [f"FAILED {each.nodeid}\n{each.longreprtext}" for each in (reporter.stats.get("failed", []) if reporter else [])]
    os.write(config.stash[stderr_key], "\n\n".join(["", *failed, f"FAILED {text}", ""]).encode())
