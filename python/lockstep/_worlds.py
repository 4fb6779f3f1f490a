"""Worlds of forked ranks, and the process that watches them."""
from __future__ import annotations

import atexit
import functools
import os
import pickle
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Any, Union

import torch.distributed as dist

from . import _calls, _rank
from ._processes import Capture, Process, ask_for_stacks
from ._rank import Outcome, Task
from ._state import State, running
from ._verdict import Patience, RankEnd, Verdict, died_of, judge

if TYPE_CHECKING:
    from ._simulated import KeptHost

LOOK_SECONDS = 0.25
CHECK_SECONDS = 5.0  # For ranks that have nothing else to do.
CHECK = b"check"  # What a kept rank is sent in place of a test, to use its group alone.
BROKEN = "broken"  # The kind of the outcome of a test that was not run: the default group does not work.
Kept = Union["KeptWorlds", "KeptHost"]
Lookup = Callable[[int, Any], "tuple[Callable[[], Any], Callable[[BaseException], Any]]"]


class World:
    """Ranks that are forked from this process. `main` is what each of them runs, with its rank and its connection."""

    def __init__(self, size: int, main: Callable[[World, int, Connection], None], timeout: float, capture: Capture) -> None:
        if dist.is_initialized():
            raise RuntimeError("torch.distributed is initialised in the process of the tests: its ranks would have that group's "
                               "connections; destroy_process_group() first")
        import torch._dynamo  # DistributedDataParallel's first construction loads it, which takes each rank a second.
        _calls.install()
        self.size, self.timeout, self.progress = size, timeout, _calls.Progress(size)
        self.store = os.memfd_create("store")
        self.ranks: list[Process] = []
        try:
            for rank in range(size):
                self.ranks.append(Process(functools.partial(main, self, rank), capture))
        except BaseException:
            self.close()
            raise

    def join(self, rank: int) -> None:
        _rank.join_world(rank, self.size, self.store, self.progress, self.timeout)

    def watch(self, timeout: float) -> list[RankEnd]:
        """How each rank's test ended, once all have or those that have not will not."""
        ends = [RankEnd() for _ in self.ranks]
        patience = Patience(timeout)
        while any(end.is_open() for end in ends):
            self._receive(ends, min(LOOK_SECONDS, patience.left()))
            for rank, end in enumerate(ends):
                end.progress = self.progress.read(rank)
            if patience.is_over(ends):
                break
        late = [process for process, end in zip(self.ranks, ends) if end.is_open()]
        ask_for_stacks(late)
        for process, end in zip(self.ranks, ends):
            end.stack, end.printed = process.stack(), process.printed()
            end.seconds = patience.seconds()
        return ends

    def _receive(self, ends: list[RankEnd], seconds: float) -> None:
        by_source: dict[Any, tuple[Process, RankEnd]] = {}
        for process, end in zip(self.ranks, ends):
            if end.is_open():
                by_source[process.handle] = process, end
                if not end.is_silent:
                    by_source[process.connection] = process, end
        ready = wait(list(by_source), seconds)
        for source in sorted(ready, key=lambda each: isinstance(each, int)):  # What a rank sent before it died counts.
            process, end = by_source[source]
            if not end.is_open():
                continue
            try:
                if not end.is_silent and process.connection.poll():
                    end.outcome = process.connection.recv()
                    process.is_idle = True
            except (EOFError, ConnectionResetError):
                end.is_silent = True
            if source == process.handle and end.outcome is None:
                process.reap()
                end.status = process.status

    def close(self) -> None:
        for process in self.ranks:
            process.dismiss()
        for process in self.ranks:
            process.close()
        self.ranks = []
        os.close(self.store)


def run_cold(size: int, task: Task, body: Callable[[int], Any], render: Callable[[BaseException], Any], timeout: float,
             capture: Capture) -> Verdict:
    """Forks a world for one test."""
    def main(world: World, rank: int, connection: Connection) -> None:
        world.join(rank)
        connection.send(_rank.perform(task, rank, size, world.progress, functools.partial(body, rank), render))
        connection.recv()  # Until the world is closed: a peer would see its connection end.

    world = World(size, main, timeout, capture)
    try:
        return judge(world.watch(timeout))
    finally:
        world.close()


class KeptWorld(World):
    """A world that runs one test after the other. What it is sent for each is looked up by `lookup` in its processes."""

    def __init__(self, size: int, lookup: Lookup, timeout: float, capture: Capture) -> None:
        self.lookup, self.last = lookup, "its fork"
        super().__init__(size, lambda _, rank, connection: self._serve(rank, connection), timeout, capture)

    def _serve(self, rank: int, connection: Connection) -> None:
        self.join(rank)
        others, before, is_first = running(), State(), True
        while (request := connection.recv()) is not None:
            works, is_first = is_first or _rank.group_works(CHECK_SECONDS), False  # Every rank has ended the last test.
            self.progress.write(rank, {"groups": {}})
            if request == CHECK or not works:
                connection.send(Outcome("passed" if works else BROKEN))
                continue
            task, state, what = pickle.loads(request)
            before = state.settle(before)
            body, render = self.lookup(rank, what)
            outcome = _rank.perform(task, rank, self.size, self.progress, body, render)
            started = sorted(running() - others)
            has_group = dist.is_initialized()
            changed = before.restore()
            outcome.left_behind = changed + started + ([] if has_group else ["no default group"])
            outcome.is_usable = has_group and not started
            connection.send(outcome)

    def died(self) -> str:
        """Returns a text on ranks that ended while they had nothing to do; empty: none did."""
        for process in wait([process.handle for process in self.ranks], 0):
            next(each for each in self.ranks if each.handle == process).reap()
        return ", ".join(f"rank {rank} {died_of(process.status)}" for rank, process in enumerate(self.ranks) if process.status is not None)

    def send(self, request: bytes) -> None:
        for rank, process in enumerate(self.ranks):
            self.progress.write(rank, {"groups": {}, "state": BROKEN})  # Until the rank has used its group.
            process.mark()
            process.connection.send(request)
            process.is_idle = False

    def group_works(self, ends: list[RankEnd]) -> bool:
        """Whether every rank came past the use of its group."""
        return all(end.progress.get("state") != BROKEN and (end.outcome is None or end.outcome.kind != BROKEN) for end in ends)

    def works(self) -> bool:
        self.send(CHECK)
        return self.group_works(self.watch(2 * CHECK_SECONDS))

    def run(self, task: Task, state: State, what: Any, timeout: float) -> tuple[Verdict | None, bool]:
        """No verdict where the default group does not work; and whether the world can run another test."""
        self.send(pickle.dumps((task, state, what)))
        ends = self.watch(timeout)
        if not self.group_works(ends):
            return None, False
        self.last, verdict = task.name, judge(ends)
        has_ended_well = verdict.succeeded or task.is_example  # Hypothesis has hundreds of examples fail as it shrinks one.
        return verdict, has_ended_well and all(end.outcome and end.outcome.is_usable for end in ends)


def state_of_ranks() -> State:
    """This process's, for ranks that are kept. They compute with one thread."""
    state = State()
    state.flags["PyTorch's number of threads"] = 1
    return state


class KeptWorlds:
    """One kept world of each size that was asked for. One that cannot go on is closed; `fork` makes those that lack."""

    def __init__(self, lookup: Lookup, capture: Capture) -> None:
        self.lookup, self.capture, self.owner = lookup, capture, os.getpid()
        self.worlds: dict[int, KeptWorld] = {}
        self.deaths: list[str] = []  # Of ranks between two tests; who reads them takes them out.

    def fork(self, size: int, timeout: float) -> KeptWorld:
        if size in self.worlds and (died := self.worlds[size].died()):
            self.deaths.append(f"after {self.worlds[size].last}, {died}; the kept ranks were replaced")
            self.discard(size)
        if size not in self.worlds:
            self.worlds[size] = KeptWorld(size, self.lookup, timeout, self.capture)
        return self.worlds[size]

    def run(self, size: int, task: Task, what: Any, timeout: float) -> tuple[Verdict, bool]:
        """And whether the world was replaced."""
        state, is_usable = state_of_ranks(), False
        try:
            verdict, is_usable = self.fork(size, timeout).run(task, state, what, timeout)
            if verdict is None:
                self.replace(size)
                # They were forked beside what the fixtures of this test have changed, and so are for it alone.
                verdict = self.fork(size, timeout).run(task, state, what, timeout)[0]
        finally:
            if not is_usable:
                self.discard(size)
        assert verdict is not None  # A world that was forked for the test.
        return verdict, not is_usable

    def replace(self, size: int) -> None:
        """Discards a world whose default group does not work, and says after which test."""
        self.deaths.append(f"after {self.worlds[size].last}, the default group does not work any more; the kept ranks were replaced")
        self.discard(size)

    def check(self) -> None:
        """Looks what the last test of each world left behind, where none follows that would."""
        for size in [size for size, world in self.worlds.items() if not world.works()]:
            self.replace(size)

    def discard(self, size: int) -> None:
        """Ends the ranks of worlds of this size."""
        if size in self.worlds:
            self.worlds.pop(size).close()

    def close(self) -> None:
        while self.worlds and self.owner == os.getpid():
            self.worlds.popitem()[1].close()


def called(rank: int, pickled: bytes) -> tuple[Callable[[], Any], Callable[[BaseException], Any]]:
    def body() -> Any:
        function, args = pickle.loads(pickled)
        return function(rank, *args)
    return body, lambda error: None


def kept(tier: str, lookup: Lookup, capture: Capture) -> Kept:
    """The ranks of a tier that keeps them."""
    if tier == "warm":
        return KeptWorlds(lookup, capture)
    from ._simulated import KeptHost
    return KeptHost(lookup, capture)


of_functions: dict[str, Kept] = {}  # By tier.


def run_kept(tier: str, size: int, task: Task, pickled: bytes, timeout: float) -> Verdict:
    """Runs a function in a world that is kept for such."""
    if tier not in of_functions or of_functions[tier].owner != os.getpid():
        of_functions[tier] = kept(tier, called, Capture.NOTHING)
        atexit.register(of_functions[tier].close)
    return of_functions[tier].run(size, task, pickled, timeout)[0]
