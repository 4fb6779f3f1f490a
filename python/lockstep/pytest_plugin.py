"""The plugin of pytest: tests that are marked by lockstep.world() run on every rank of a world."""
from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from . import _api, _launched_tests, _reports
from ._tests import MARK, Kept, asked, body_key, body_of, call, pickled_for_kept_ranks, renderer, setting, size_of

if TYPE_CHECKING:
    from ._calls import Recording
    from ._rank import Task
    from ._verdict import Verdict
    from ._worlds import Kept as RanksKept

CAPTURES = {"capsys", "capsysbinary", "capteesys"}
IN_PROCESSES = CAPTURES | {"caplog", "recwarn"}  # Fixtures of which each rank needs its own.
kept_key = pytest.StashKey["dict[str, RanksKept]"]()  # By tier.
lookup_key = pytest.StashKey[Kept]()
stale_key = pytest.StashKey[bool]()  # The kept ranks are not for another test.


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("lockstep", "tests in worlds of ranks")
    group.addoption("--lockstep-tier", metavar="TIER",
                    help="cold: ranks are forked for each test (default); warm: they are kept; sim: they are threads of a kept process; "
                         "launched: a launcher has started each with a pytest of its own")
    group.addoption("--lockstep-timeout", type=float, metavar="SECONDS", help="after which a test in a world fails; default 60")
    group.addoption("--lockstep-record", nargs="?", const="", metavar="DIR",
                    help="record each test in a world, into DIR or a temporary folder, and judge it")
    parser.addini("lockstep_tier", "cold, warm, sim or launched", default="cold")
    parser.addini("lockstep_timeout", "seconds after which a test in a world fails", default=str(_api.TIMEOUT_SECONDS))


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", f"{MARK}(*sizes, tier, timeout): runs in worlds of these sizes; lockstep.world() makes it")
    try:
        if asked(config, "tier") == _api.LAUNCHED:
            _launched_tests.prepare(config)
        else:
            _api.tier_named(asked(config, "tier"))
        _api.check_timeout(float(asked(config, "timeout")))
    except ValueError as error:
        raise pytest.UsageError(f"lockstep: {error}") from None
    folder = config.getoption("lockstep_record")
    if folder and pathlib.Path(folder).exists() and not pathlib.Path(folder).is_dir():
        raise pytest.UsageError(f"--lockstep-record: {folder} is no folder; without one, the option comes behind the files of tests")


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    _launched_tests.begin(session.config)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    mark = metafunc.definition.get_closest_marker(MARK)
    if mark is not None:
        if "world_size" not in metafunc.fixturenames:
            metafunc.fixturenames.append("world_size")
        # The fixtures are of the session's scope for Hypothesis, which warns of all others, and each test has its own nevertheless.
        metafunc.parametrize("world_size", mark.args, indirect=True, ids=[f"world{size}" for size in mark.args], scope="function")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker(MARK) is None:
            continue
        if getattr(item.obj, "is_hypothesis_test", False):  # type: ignore[attr-defined]
            item.stash[body_key] = item.obj.hypothesis.inner_test  # type: ignore[attr-defined]
            item.add_marker(pytest.mark.parametrize("world_size", ()))  # Each size is a test of its own for Hypothesis too.
        if "world_size" not in getattr(getattr(item, "callspec", None), "params", ()):
            raise pytest.UsageError(f"{item.nodeid}: lockstep.world() is for functions and methods that pytest calls itself; in a class "
                                    "of unittest use lockstep.run_world(function, size)")


class NoRank:
    """The fixture `rank` where fixtures run."""

    def __repr__(self) -> str:
        return "<the rank: known to the test's body alone>"

    def refuse(self, *_: object) -> NoReturn:
        raise TypeError("fixtures run once, in the process of pytest, which is no rank: take `rank` in the test's body")

    __index__ = __int__ = __eq__ = __lt__ = __gt__ = __le__ = __ge__ = __add__ = __radd__ = __mul__ = __rmul__ = refuse
    __mod__ = __sub__ = __rsub__ = __hash__ = __bool__ = refuse


@pytest.fixture(scope="session")
def world_size(request: pytest.FixtureRequest) -> int:
    """How many ranks run this test."""
    if not hasattr(request, "param"):
        pytest.fail("the fixture world_size is for tests in a world: add @lockstep.world(2)", pytrace=False)
    return int(request.param)


@pytest.fixture(scope="session")
def rank(world_size: int) -> NoRank:
    """The number of the process that runs the body of a test in a world."""
    return NoRank()


def pytest_collection_finish(session: pytest.Session) -> None:
    wanted = {(setting(item, "tier"), size_of(item)): float(setting(item, "timeout")) for item in session.items if keeps_ranks(item)}
    if wanted and not session.config.option.collectonly:
        from . import _worlds
        from ._processes import Capture
        capture = Capture.NOTHING if session.config.option.capture == "no" else Capture.ALL
        lookup = session.config.stash[lookup_key] = Kept([item for item in session.items if keeps_ranks(item)])
        kept = {tier: _worlds.Kept(tier, lookup, capture) for tier in sorted({tier for tier, _ in wanted})}
        session.config.stash[kept_key] = kept
        for (tier, size), timeout in wanted.items():
            kept[tier].fork(size, timeout)
        lookup.remember()  # Not before: the first fork puts the recorder's hooks where tests have imported collectives.


def keeps_ranks(item: pytest.Item) -> bool:
    is_in_world = item.get_closest_marker(MARK) is not None and hasattr(item, "callspec")
    return is_in_world and setting(item, "tier") not in ("cold", _api.LAUNCHED)


def pytest_unconfigure(config: pytest.Config) -> None:
    for kept in config.stash.get(kept_key, {}).values():
        kept.close()
    _launched_tests.end(config)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: Any) -> bool | None:
    """Runs the body on every rank."""
    if pyfuncitem.get_closest_marker(MARK) is None:
        return None
    if {"capfd", "capfdbinary"} & set(pyfuncitem.fixturenames):
        pytest.fail("capfd captures the files of the process of pytest, which the ranks do not write to: use capsys", pytrace=False)
    args = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    if setting(pyfuncitem, "tier") == _api.LAUNCHED:
        _launched_tests.run(pyfuncitem, args)
        return True
    recording = _reports.recording_of(pyfuncitem)
    if body_key not in pyfuncitem.stash:
        conclude(pyfuncitem, recording, run_test(pyfuncitem, body_of(pyfuncitem)[0], args, recording))
        return True
    from . import _given
    sections = list(pyfuncitem._report_sections)

    def run_example(function: Callable[..., Any], values: dict[str, Any]) -> Verdict:
        _reports.forget(pyfuncitem, sections, recording)
        return run_test(pyfuncitem, function, values, recording, is_example=True)
    _given.run(pyfuncitem.obj, pyfuncitem.stash[body_key], args, size_of(pyfuncitem), run_example,
               lambda verdict: conclude(pyfuncitem, recording, verdict))
    return True


def run_test(item: Any, function: Callable[..., Any], args: dict[str, Any], recording: Recording | None, is_example: bool = False) -> Verdict:
    """Runs a function on every rank, in the tier that was asked for if that can be."""
    from ._rank import Task
    tier = _api.tier_named(setting(item, "tier"))
    if tier == "sim" and (why := why_not_simulated(item)):
        tier = "cold"
        _reports.note(item, f"ran cold: {why}")
    task = Task(item.nodeid, recording, keeps_warnings="recwarn" not in item.fixturenames, is_example=is_example)
    what, reason = (b"", "") if tier == "cold" else pickled_for_kept_ranks(item, args, item.config.stash[lookup_key])
    if reason and tier == "warm":
        _reports.note(item, f"ran cold: {reason}")
    verdict = run_kept(item, task, what) if what else run_forked(item, task, function, args, tier)
    _reports.show(item, verdict)
    _reports.note_of_forks(item, verdict)
    return verdict


def conclude(item: Any, recording: Recording | None, verdict: Verdict) -> None:
    """Raises what failed, on the ranks or in what they recorded."""
    story = _reports.judged(item, recording, verdict) if recording is not None else ""
    if verdict.kind != "passed":
        _reports.raise_in_place(verdict)
    if story:
        pytest.fail(story, pytrace=False)


def why_not_simulated(item: Any) -> str:
    shared = sorted(IN_PROCESSES & set(item.fixturenames))
    return f"{', '.join(shared)} would hold what all simulated ranks say" if shared else ""


def run_kept(item: Any, task: Task, what: bytes) -> Verdict:
    kept = item.config.stash[kept_key][setting(item, "tier")]
    verdict: Verdict
    verdict, is_replaced = kept.run(size_of(item), task, (item.nodeid, what), float(setting(item, "timeout")))
    is_replaced_here = bool(kept.replaced)  # Its ranks were forked beside what the fixtures have changed.
    note_replaced(item, kept)
    if setting(item, "tier") == "warm" and (is_replaced_here or task.is_example and (is_replaced or not verdict.succeeded)):
        item.stash[stale_key] = True
    if verdict.left_behind:
        _reports.note(item, f"left behind in kept ranks: {', '.join(verdict.left_behind)}; they were {'replaced' if is_replaced else 'set right'}")
    return verdict


def run_forked(item: Any, task: Task, function: Callable[..., Any], args: dict[str, Any], tier: str) -> Verdict:
    from ._processes import Capture
    from ._worlds import run_once
    capture = Capture.NOTHING if item.config.option.capture == "no" else Capture.ALL
    if CAPTURES & set(item.fixturenames):
        capture = Capture.FILES
    return run_once(tier, size_of(item), task, lambda rank: call(item, function, body_of(item)[1], rank, args), renderer(item),
                    float(setting(item, "timeout")), capture)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Iterator[None]:
    """In place of this process's traceback stands the rank's."""
    made: Any = yield
    report = made.get_result()
    if call.excinfo is not None and report.failed and item.get_closest_marker(MARK) is not None:
        report.longrepr = _reports.with_ranks(item, call.excinfo, report.longrepr)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Kept ranks that are no more are forked again here, where no fixture of a test has changed this process."""
    if not keeps_ranks(item):
        return
    kept = item.config.stash[kept_key][setting(item, "tier")]
    if item.stash.get(stale_key, False):
        kept.discard(size_of(item))
    kept.look()
    note_replaced(item, kept)
    if nextitem is not None:
        kept.fork(size_of(item), float(setting(item, "timeout")))


def note_replaced(item: Any, kept: Any) -> None:
    for last, why in kept.replaced:
        _reports.note(item, why if last == item.nodeid else f"after {last}, {why}")
    kept.replaced.clear()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Says of each test that did not run as asked, or left something behind, what that was."""
    found = [(report.nodeid, text) for reports in terminalreporter.stats.values() for report in reports
             for title, text in getattr(report, "sections", ()) if title == f"Captured {_reports.NOTES} call"]
    if found:
        terminalreporter.section("lockstep")
        for nodeid, text in dict.fromkeys(found):
            terminalreporter.line(f"{nodeid}: {text}")
