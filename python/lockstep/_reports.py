"""The parts of pytest's reports that are about a test in a world."""
from __future__ import annotations

import itertools
import pathlib
import re
import shutil
import sys
import warnings
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ._calls import Recording
    from ._verdict import Verdict

NOTES = "lockstep"  # The section that says how a test ran where that is not as asked.


def note(item: pytest.Item, sentence: str) -> None:
    if ("call", NOTES, sentence) not in item._report_sections:  # An example of Hypothesis may have said it.
        item.add_report_section("call", NOTES, sentence)


def note_of_forks(item: pytest.Item, verdict: Verdict) -> None:
    """CUDA, and PyTorch's threads of gradients, refuse a process that was forked from one that uses them, and propose what no test here can do."""
    torch, lines = sys.modules.get("torch"), [end.outcome.line for end in verdict.ends if end.outcome]
    if any("fork-based multiprocessing" in line for line in lines):
        note(item, "pytest's process has run a backward, and this PyTorch keeps threads for those, which ranks that are forked from it cannot have: "
                   "use the tier warm, or run tests that compute gradients in pytest's process separately")
    elif torch is not None and torch.cuda.is_initialized() and any("CUDA" in line for line in lines):
        note(item, "pytest's process has used CUDA, so ranks that are forked from it cannot: use CUDA in ranks alone, or run tests that use it in "
                   "pytest's process separately")


def forget(item: pytest.Item, sections: list[tuple[str, str, str]], recording: Recording | None) -> None:
    """Removes what the last example left, but for notes. Of a test that fails it is the smallest one that stays."""
    item._report_sections[:] = sections + [each for each in item._report_sections if each[1] == NOTES and each not in sections]
    if recording is not None:
        shutil.rmtree(recording.folder, ignore_errors=True)


def recording_of(item: Any) -> Recording | None:
    """A new folder for the test, where it is recorded."""
    folder = item.config.getoption("lockstep_record")
    if folder is None:
        return None
    from ._calls import Recording
    above = pathlib.Path(folder).absolute() if folder else item._request.getfixturevalue("tmp_path_factory").getbasetemp() / "lockstep"
    name = re.sub(r"[^\w.]+", "-", item.nodeid).strip("-")[-120:]
    taken = {each.name for each in above.iterdir()} if above.is_dir() else set()
    names = itertools.chain([name], (f"{name}-{number}" for number in itertools.count(2)))
    return Recording(str(above / next(each for each in names if each not in taken)))


def judged(item: pytest.Item, recording: Recording, verdict: Verdict) -> str:
    """Returns the story of `lockstep judge` if it finds a test wrong that passed. All else that it says is a section of the report."""
    from . import _judging
    code, story = 0, "not judged: no rank made an update"
    if any(end.outcome and end.outcome.updates for end in verdict.ends):
        code, story = _judging.judge(recording.folder)
    if code in (_judging.FAILED, _judging.UNREADABLE) and verdict.kind == "passed":
        return f"{recording.folder} was recorded, and `lockstep judge` says:\n\n{story}"
    item.add_report_section("call", "judge", story)
    return ""


def show(item: pytest.Item, verdict: Verdict) -> None:
    """Reports what the ranks printed, logged and warned of."""
    warned = dict.fromkeys(each for end in verdict.ends for each in (end.outcome.warnings if end.outcome else []))
    for module, category, message, filename, line in warned:
        warnings.warn_explicit(message, getattr(sys.modules.get(module), category, UserWarning), filename, line)
    for rank, end in enumerate(verdict.ends):
        log = {"log": end.outcome.log} if end.outcome else {}
        for name, text in {**end.printed, **log}.items():
            if text:
                item.add_report_section("call", f"{name} of rank {rank} in the", text)


def raise_in_place(verdict: Verdict) -> None:
    """Raises what the ranks raised, or a sentence on them."""
    if verdict.kind == "skipped":
        raise pytest.skip.Exception(verdict.sentence, _use_item_location=True)
    if verdict.kind == "xfailed":
        raise pytest.xfail.Exception(verdict.sentence)
    error = verdict.error()
    outcome = verdict.ends[verdict.blamed].outcome if verdict.blamed is not None else None
    if verdict.kind == "failed":
        error.__lockstep__ = verdict  # type: ignore[attr-defined]
        error.__dict__.pop("__notes__", None)  # The rank's report has them.
    # Raised where the rank did, since Hypothesis takes two errors of one line for one.
    file, line, name = outcome.place if outcome is not None and outcome.place is not None else (__file__, 1, "ranks")
    exec(compile("\n" * (line - 1) + "raise error", file, "exec").replace(co_name=name), {"error": error})


def with_ranks(item: pytest.Item, excinfo: pytest.ExceptionInfo[BaseException], longrepr: Any) -> Any:
    """The report of a failure, with what is known of the ranks and of an example of Hypothesis."""
    verdict: Verdict | None = getattr(excinfo.value, "__lockstep__", None)
    errors = [each for each in getattr(excinfo.value, "exceptions", ()) if hasattr(each, "__lockstep__")]
    for error in errors:
        error.__notes__ = [*getattr(error, "__notes__", []), *error.__lockstep__.notes()]
    if errors:
        return item.repr_failure(excinfo)
    if verdict is not None:
        longrepr = of_ranks(verdict, excinfo)
    if hasattr(longrepr, "addsection") and (notes := getattr(excinfo.value, "__notes__", [])):
        longrepr.addsection("example of Hypothesis", "\n".join(notes))
    return longrepr


def of_ranks(verdict: Verdict, excinfo: pytest.ExceptionInfo[BaseException]) -> Any:
    """The blamed rank's traceback, in place of this process's, and a line on each rank."""
    outcome = verdict.ends[verdict.blamed].outcome if verdict.blamed is not None else None
    longrepr: Any = outcome.report if outcome else None
    if not hasattr(longrepr, "addsection"):
        longrepr = excinfo.getrepr(style="value")
    if verdict.blamed is not None and longrepr.reprcrash is not None:
        longrepr.reprcrash.message = f"rank {verdict.blamed}: {longrepr.reprcrash.message}"
    longrepr.addsection(verdict.sentence if verdict.blamed is not None else "ranks", "\n".join(verdict.states))
    for rank, stack in verdict.stacks:
        longrepr.addsection(f"Python stack of rank {rank}", stack)
    return longrepr
