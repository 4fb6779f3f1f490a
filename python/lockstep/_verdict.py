"""A test's verdict, from the ends of its ranks."""
from __future__ import annotations

import os
import pickle
import re
import signal
import sys
import time
import traceback
import unittest
from dataclasses import dataclass, field
from typing import Any

from ._calls import ranks_of
from ._rank import OURS, RANK_FILE, SUCCEEDED, Outcome

GRACE_SECONDS = 1.0  # For the others, once a rank has failed or will never come.
DISAGREEMENTS = {"skipped": "is skipped", "xfailed": "fails as expected", "rejected": "has this example, which assume() or reject() refuses"}


class WorldError(Exception):
    """A test failed otherwise than by an exception of a rank: ranks hang, died, or disagree."""

    __module__ = "lockstep"


@dataclass
class RankEnd:
    """How a test ended on one rank, or how far it came."""

    outcome: Outcome | None = None
    status: int | None = None  # waitpid's, of a process that ended before the test did.
    progress: dict[str, Any] = field(default_factory=dict)
    is_silent: bool = False  # It has closed its connection; a test may close all files.
    seconds: float = 0
    stack: str = ""
    printed: dict[str, str] = field(default_factory=dict)

    def is_open(self) -> bool:
        return self.outcome is None and self.status is None


@dataclass
class Verdict:
    """The verdict on a test. The blamed rank's exception is the one that `error()` returns."""

    ends: list[RankEnd]
    blamed: int | None = None  # The rank whose exception is the test's.
    kind: str = "passed"  # One of SUCCEEDED, or "failed".
    sentence: str = ""
    states: list[str] = field(default_factory=list)
    stacks: list[tuple[int, str]] = field(default_factory=list)
    left_behind: list[str] = field(default_factory=list)

    @property
    def succeeded(self) -> bool:
        return self.kind in SUCCEEDED

    def notes(self) -> list[str]:
        """Texts on all ranks, for an exception that is raised without a report."""
        blamed = self.ends[self.blamed].outcome if self.blamed is not None else None
        return [self.sentence, *self.states, *([f"rank {self.blamed}'s traceback:\n{blamed.traceback}"] if blamed is not None else []),
                *(f"rank {rank}'s stack:\n{stack}" for rank, stack in self.stacks)]

    def error(self) -> BaseException:
        """The exception that a caller in this process raises."""
        if self.kind == "skipped":  # A pickle of pytest's own exception does not come back as what it was.
            return unittest.SkipTest(self.sentence)
        blamed = self.blamed if self.blamed is not None else 0
        outcome = self.ends[blamed].outcome if self.blamed is not None or self.kind != "failed" else None
        if outcome is not None and outcome.error:
            error: BaseException = pickle.loads(outcome.error)
        else:
            error = WorldError(f"rank {self.blamed}: {outcome.line}" if outcome is not None else self.sentence)
        return error


def missing(rank: int, ends: list[RankEnd]) -> list[int]:
    """The ranks that have not come to the collective in which this one waits."""
    mine = ends[rank].progress
    if "peer" in mine:
        return [mine["peer"]] if mine["peer"] >= 0 else []
    group = mine.get("group", "world")
    return [other for other in ranks_of(group, len(ends)) if other != rank and
            ends[other].progress.get("groups", {}).get(group, -1) < mine.get("number", -1)]


def waits(end: RankEnd) -> bool:
    return end.is_open() and end.progress.get("state") == "waits"


def beside(end: RankEnd, ends: list[RankEnd]) -> list[RankEnd]:
    """The ranks whose last collective is the one of this number of this group, whatever it is on each."""
    mine = end.progress
    return [each for each in ends if "number" in mine and all(each.progress.get(key) == mine[key] for key in ("group", "number"))]


def is_crossed(ends: list[RankEnd]) -> bool:
    """Whether all ranks of a group have come to its collective of one number, one waits there, and it is not the same on all."""
    return any(waits(end) and len(found := beside(end, ends)) == len(ranks_of(end.progress.get("group", "world"), len(ends))) and
               all(waits(each) or not each.is_open() for each in found) and len({each.progress["op"] for each in found}) > 1 for end in ends)


def is_stuck(ends: list[RankEnd]) -> bool:
    """Whether a rank failed, or one waits for a rank that has ended or does something else: the test cannot pass any more."""
    for rank, end in enumerate(ends):
        if end.status is not None or end.outcome is not None and end.outcome.kind == "failed":
            return True
        if waits(end) and any(not ends[other].is_open() for other in missing(rank, ends)):
            return True
    return is_crossed(ends)


def patience(ends: list[RankEnd], most: float) -> float:
    """The seconds after which the last of the waiting ranks is ended by a timeout of its group that is shorter than the test's."""
    timeouts = [end.progress.get("timeout", most) for end in ends if waits(end)]
    return max((seconds for seconds in timeouts if seconds < most), default=0.0)


class Patience:
    """How long the ranks of a test are waited for: to its deadline, or a moment behind what keeps it from passing."""

    def __init__(self, timeout: float) -> None:
        self.timeout, self.deadline = timeout, time.monotonic() + timeout
        self.until: float | None = None
        self.grace = GRACE_SECONDS

    def left(self) -> float:
        return max(0.0, (self.until or self.deadline) - time.monotonic())

    def is_over(self, ends: list[RankEnd]) -> bool:
        if not is_stuck(ends):
            self.until = None
        elif self.until is None:
            self.grace = GRACE_SECONDS + patience(ends, self.timeout)
            self.until = min(self.deadline, time.monotonic() + self.grace)
        return self.left() == 0

    def seconds(self) -> float:
        """Returns how long ranks that did not end were waited for."""
        return self.timeout if self.until is None else self.grace


def stack_of_thread(thread: int, title: str) -> str:
    """Returns a thread's calls, innermost first as faulthandler has them; nothing of a thread that is not there."""
    frame = sys._current_frames().get(thread)
    if frame is None:
        return ""
    lines = [f'  File "{each.filename}", line {each.lineno} in {each.name}' for each in reversed(traceback.extract_stack(frame))]
    return "\n".join([f"{title} 0x{thread:016x} (most recent call first):", *lines])


def first_line(text: str, most: int = 160) -> str:
    line = text.strip().partition("\n")[0]
    return line if len(line) <= most else line[:most - 4] + " ..."


def state_of(rank: int, ends: list[RankEnd]) -> str:
    end, last = ends[rank], ends[rank].progress
    others = {(each.progress["op"], each.progress["of"]) for each in beside(end, ends)}
    if end.outcome is not None:
        last_of_all = f"; its last collective is {what_of(last, others)}" if len(others) > 1 and any(map(waits, beside(end, ends))) else ""
        return end.outcome.kind + (f": {first_line(end.outcome.line)}" if end.outcome.line else "") + last_of_all
    runs = "runs" if end.status is None else died_of(end.status)
    if not last.get("op"):
        return f"{runs}, and has issued no collective"
    if "peer" in last:
        place = f" at {last['at']}" if last.get("at") else ""
        return f"{'waits in' if waits(end) else f'{runs}; its last was'} {last['op']} with rank {last['peer']}{place}"
    what = what_of(last, others)
    if not waits(end):
        return f"{runs}; its last collective is {what}"
    absent = missing(rank, ends)
    return f"waits in {what}" + (f", to which {ranks_in_words(absent)} did not come" if absent else "")


def what_of(last: dict[str, Any], others: set[tuple[str, str]]) -> str:
    """A rank's last collective, with its size where that of another rank is another one."""
    place, size = f" at {last['at']}" if last.get("at") else "", f" of {last['of']}" if len(others) > 1 else ""
    return f"{last['op']}{size}, number {last['number'] + 1} of {last['group'] if last['group'] != 'world' else 'the world'}{place}"


def ranks_in_words(ranks: list[int]) -> str:
    return ("rank " if len(ranks) == 1 else "ranks ") + ", ".join(map(str, ranks))


def died_of(status: int) -> str:
    if os.WIFSIGNALED(status):
        return f"died by {signal.Signals(os.WTERMSIG(status)).name}"
    return f"ended its process with exit status {os.waitstatus_to_exitcode(status)}"


def stack_of(text: str) -> str:
    """Returns each thread's frames of the test, without those that run it or watch its collectives."""
    blocks = []
    for block in re.split(r"\n(?=(?:Current thread|Thread) 0x)", text.strip()):
        lines = block.splitlines()
        end = next((number for number, line in enumerate(lines) if f'"{RANK_FILE}"' in line), len(lines))
        blocks.append("\n".join(line for line in lines[:end] if not any(f'"{folder}{os.sep}' in line for folder in OURS)))
    return "\n".join(blocks)


def judge(ends: list[RankEnd]) -> Verdict:
    verdict = Verdict(ends)
    count = len(ends)
    outcomes = [end.outcome for end in ends]
    verdict.states = [f"rank {rank}: {state_of(rank, ends)}" for rank in range(count)]
    verdict.stacks = [(rank, stack_of(end.stack)) for rank, end in enumerate(ends) if end.stack and end.outcome is None]
    for rank, outcome in enumerate(outcomes):
        verdict.left_behind += [f"{each} on rank {rank}" for each in (outcome.left_behind if outcome else [])]
    died = [rank for rank, end in enumerate(ends) if end.status is not None]
    hung = [rank for rank, end in enumerate(ends) if end.is_open()]
    failed = [rank for rank, outcome in enumerate(outcomes) if outcome is not None and outcome.kind == "failed"]
    kinds = {outcome.kind for outcome in outcomes if outcome is not None}
    if died:
        has_stack = any(rank == died[0] for rank, _ in verdict.stacks)
        verdict.sentence = f"rank {died[0]} of {count} {died_of(ends[died[0]].status or 0)}" + ("" if has_stack else "; it left no stack")
    elif failed:
        verdict.blamed = failed[0]
        verdict.sentence = f"rank {failed[0]} of {count} failed"
    elif hung:
        first = ends[hung[0]]
        ended = [rank for rank in range(count) if rank not in hung]
        verdict.sentence = f"{ranks_in_words(hung)} of {count} did not end within {first.seconds:g} s" + (
            "; the ranks have issued different collectives" if is_crossed(ends) else f" of {ranks_in_words(ended)}" if is_stuck(ends) else "")
    elif len(kinds) > 1:
        verdict.sentence = "the ranks disagree on whether this test " + next(text for kind, text in DISAGREEMENTS.items() if kind in kinds)
    else:
        verdict.kind = kinds.pop()
        verdict.sentence = outcomes[0].line if outcomes[0] else ""
        return verdict
    verdict.kind = "failed"
    return verdict
