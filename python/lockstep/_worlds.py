"""Worlds of forked ranks, and the process that watches them."""
from __future__ import annotations

import atexit
import functools
import os
import pickle
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

import torch.distributed as dist

from . import _calls, _rank
from ._processes import Capture, Process, ask_for_stacks, ready
from ._rank import Outcome, Render, Task, no_report
from ._state import State, running
from ._verdict import Patience, RankEnd, Verdict, died_of, judge

if TYPE_CHECKING:
    from ._simulated import Host

LOOK_SECONDS = 0.25
CHECK_SECONDS = 5.0  # For ranks that have nothing else to do.
CHECK = b"check"  # What a kept rank is sent in place of a test, to use its group alone.
Lookup = Callable[[int, Any], "tuple[Callable[[], Any], Render]"]


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
        ranks = dict[int, int]()
        for rank, (process, end) in enumerate(zip(self.ranks, ends)):
            if end.is_open():
                ranks |= dict.fromkeys([process.handle] + [process.connection.fileno()] * (not end.is_silent), rank)
        for rank in {ranks[each] for each in ready(ranks, seconds)}:
            process, end = self.ranks[rank], ends[rank]
            try:
                if not end.is_silent and process.has_sent():  # Before it died, too.
                    end.outcome = process.connection.recv()
                    process.is_idle = True
            except (EOFError, ConnectionResetError):
                end.is_silent = True
            if end.outcome is None and process.has_ended():
                process.reap()
                end.status = process.status

    def close(self) -> None:
        for process in self.ranks:
            process.dismiss()
        for process in self.ranks:
            process.close()
        self.ranks = []
        os.close(self.store)


def run_cold(size: int, task: Task, body: Callable[[int], Any], render: Render, timeout: float, capture: Capture) -> Verdict:
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
        self.lookup, self.last, self.is_checking = lookup, "its fork", False
        super().__init__(size, lambda _, rank, connection: self._serve(rank, connection), timeout, capture)

    def _serve(self, rank: int, connection: Connection) -> None:
        self.join(rank)
        others, before = running(), State()
        while (request := connection.recv()) is not None:
            if request == CHECK:
                connection.send(Outcome("passed" if _rank.group_works(CHECK_SECONDS) else "failed"))
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

    def send(self, request: bytes) -> None:
        for rank, process in enumerate(self.ranks):
            self.progress.write(rank, {"groups": {}})
            process.mark()
            process.connection.send(request)
            process.is_idle = False

    def trouble(self) -> str:
        """Returns why no test can run in it, as far as the last one is the reason; empty: one can."""
        if self.is_checking:
            self.is_checking = False
            ends = self.watch(2 * CHECK_SECONDS)
            if not all(end.outcome is not None and end.outcome.kind == "passed" for end in ends):
                return "the default group does not work any more; the kept ranks were replaced"
        for process in self.ranks:
            if process.has_ended():
                process.reap()
        died = [f"rank {rank} {died_of(process.status)}" for rank, process in enumerate(self.ranks) if process.status is not None]
        return f"{', '.join(died)}; the kept ranks were replaced" if died else ""

    def run(self, size: int, task: Task, state: State, what: Any, timeout: float) -> tuple[Verdict, bool]:
        """And whether the world can run another test, but for its default group: ranks use that from now on, and `trouble` says."""
        self.last = task.name
        self.send(pickle.dumps((task, state, what)))
        ends = self.watch(timeout)
        verdict = judge(ends)
        has_ended_well = verdict.succeeded or task.is_example  # Hypothesis has hundreds of examples fail as it shrinks one.
        if not has_ended_well or not all(end.outcome and end.outcome.is_usable for end in ends):
            return verdict, False
        self.send(CHECK)  # Not before every rank has ended the test.
        self.is_checking = True
        return verdict, True


def state_of_ranks() -> State:
    """This process's, for ranks that are kept. They compute with one thread."""
    state = State()
    state.flags["PyTorch's number of threads"] = 1
    return state


class Kept:
    """The kept ranks of a tier: a world of each size that was asked for, or one host of all simulated worlds. What cannot go on is
    closed; `fork` makes what lacks."""

    def __init__(self, tier: str, lookup: Lookup, capture: Capture) -> None:
        self.tier, self.lookup, self.capture, self.owner = tier, lookup, capture, os.getpid()
        self.worlds: dict[int, KeptWorld | Host] = {}  # By size; the host by none.
        self.replaced: list[tuple[str, str]] = []  # The last test of each, and why; who reads them takes them out.

    def _key(self, size: int) -> int:
        return size if self.tier == "warm" else 0

    def look(self) -> None:
        """Discards worlds that no test can run in."""
        for key, world in list(self.worlds.items()):
            if trouble := world.trouble():
                self.replaced.append((world.last, trouble))
                self.worlds.pop(key).close()

    def fork(self, size: int, timeout: float) -> KeptWorld | Host:
        self.look()
        key = self._key(size)
        if key not in self.worlds:
            self.worlds[key] = KeptWorld(size, self.lookup, timeout, self.capture) if self.tier == "warm" else host(self.lookup, self.capture)
        return self.worlds[key]

    def run(self, size: int, task: Task, what: Any, timeout: float) -> tuple[Verdict, bool]:
        """And whether the world was replaced."""
        state, is_usable = state_of_ranks(), False
        world = self.fork(size, timeout)
        try:
            verdict, is_usable = world.run(size, task, state, what, timeout)
        finally:
            if not is_usable:
                self.discard(size)
        return verdict, not is_usable

    def discard(self, size: int) -> None:
        """Ends the ranks of worlds of this size."""
        if self._key(size) in self.worlds:
            self.worlds.pop(self._key(size)).close()

    def close(self) -> None:
        while self.worlds and self.owner == os.getpid():
            self.worlds.popitem()[1].close()


def host(lookup: Lookup, capture: Capture) -> Host:
    from ._simulated import Host
    return Host(lookup, capture)


def run_once(tier: str, size: int, task: Task, body: Callable[[int], Any], render: Render, timeout: float, capture: Capture) -> Verdict:
    """Forks a world for one test, or a process for a simulated one."""
    if tier != "sim":
        return run_cold(size, task, body, render, timeout, capture)
    one = host(lambda rank, _: (functools.partial(body, rank), render), capture)
    try:
        return one.run(size, task, state_of_ranks(), None, timeout)[0]
    finally:
        one.close()


def called(rank: int, pickled: bytes) -> tuple[Callable[[], Any], Render]:
    def body() -> Any:
        function, args = pickle.loads(pickled)
        return function(rank, *args)
    return body, no_report


of_functions: dict[str, Kept] = {}  # By tier.


def run_kept(tier: str, size: int, task: Task, pickled: bytes, timeout: float) -> Verdict:
    """Runs a function in a world that is kept for such."""
    if tier not in of_functions or of_functions[tier].owner != os.getpid():
        of_functions[tier] = Kept(tier, called, Capture.NOTHING)
        atexit.register(of_functions[tier].close)
    return of_functions[tier].run(size, task, pickled, timeout)[0]
