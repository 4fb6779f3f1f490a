"""The tier `launched`: torchrun, srun or another launcher has started the ranks, on one host or on several, and each of them runs pytest."""
from __future__ import annotations

import datetime
import os
import pickle
import threading
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from . import _calls, _rank
from ._rank import Task
from ._state import State
from ._verdict import GRACE_SECONDS, Patience, RankEnd, Verdict, is_stuck, judge, stack_of_thread
from ._worlds import LOOK_SECONDS

c10d: Any = dist.distributed_c10d
POST_SECONDS = 10.0  # For a rank that has passed its deadline to say so.
REPORT_SECONDS = 30.0


class LaunchedWorld:
    """The rank of this process. All ranks run the same tests in the same order, and say in the store how each ended, of which
    every rank makes the same verdict. Behind a test that failed they have a new default group."""

    def __init__(self, timeout: float, report: Callable[[str], None]) -> None:
        _calls.install()
        self.rank, self.size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self.report, self.number, self.lock, self.posted, self.is_over = report, 0, threading.Lock(), -1, False
        self.progress, self.timeout = _calls.Progress(self.size), datetime.timedelta(seconds=timeout + 60)
        if torch.cuda.is_available():
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
        self._join()
        self.of_groups: Any = c10d._get_default_store()
        # A connection of its own: a test may wait in the other one.
        self.store: Any = c10d.PrefixStore("lockstep", self.of_groups.clone())

    def _join(self, **more: Any) -> None:
        dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo", timeout=self.timeout, **more)

    def run(self, task: Task, body: Callable[[], Any], render: Callable[[BaseException], Any], timeout: float) -> Verdict:
        self.number += 1
        self.progress.write(self.rank, {"groups": {}})
        begun, has_ended, before = time.monotonic(), threading.Event(), State()
        watch = threading.Thread(target=self._watch, args=(task.name, timeout, has_ended), daemon=True)
        watch.start()
        outcome = _rank.perform(task, self.rank, self.size, self.progress, body, render)
        end = RankEnd(outcome, progress=self.progress.read(self.rank))
        if outcome.kind == "failed" and is_stuck(self._ends()):
            end.outcome = None  # It waited for a rank that failed before.
        if not self._post(end):
            threading.Event().wait()  # The thread that watches has given this rank up, and ends the process.
        has_ended.set()
        watch.join()
        before.restore()
        if outcome.kind == "failed":
            self._leave()  # Ranks that wait for this one see its connections end.
        verdict = judge(self._all_ends(begun + timeout + GRACE_SECONDS + POST_SECONDS, timeout))
        if not verdict.succeeded and not self.is_over:
            self._leave()
            self._join(store=c10d.PrefixStore(f"behind test {self.number}", self.of_groups), rank=self.rank, world_size=self.size)
        return verdict

    def _leave(self) -> None:
        if dist.is_initialized():
            dist.destroy_process_group()

    def close(self) -> None:
        """Returns when all ranks have reported: a launcher ends the others as soon as one has failed, and the first one has the store."""
        try:
            self.store.set(f"reported by {self.rank}", "")
            self.store.wait([f"reported by {rank}" for rank in range(self.size)], datetime.timedelta(seconds=REPORT_SECONDS))
        except dist.DistError:  # One that has died never will.
            pass

    def _key(self, rank: int) -> str:
        return f"test {self.number} of {rank}"

    def _post(self, end: RankEnd, is_last: bool = False) -> bool:
        """Only the first for each test is posted. The last one is that of a rank that ends its process."""
        with self.lock:
            if self.posted == self.number:
                return False
            self.posted = self.number
            self.store.set(self._key(self.rank), pickle.dumps((end, is_last)))
            return True

    def _ends(self) -> list[RankEnd]:
        """As far as ranks have posted them."""
        found = [pickle.loads(self.store.get(key)) if self.store.check([key]) else (RankEnd(), True) for key in map(self._key, range(self.size))]
        self.is_over = any(is_last for _, is_last in found)
        return [end for end, _ in found]

    def _all_ends(self, deadline: float, timeout: float) -> list[RankEnd]:
        left = max(LOOK_SECONDS, deadline - time.monotonic())
        try:
            self.store.wait(list(map(self._key, range(self.size))), datetime.timedelta(seconds=left))
        except dist.DistError:  # The judge says which did not end.
            pass
        ends = self._ends()
        for end in ends:
            end.seconds = end.seconds or timeout
        return ends

    def _watch(self, name: str, timeout: float, has_ended: threading.Event) -> None:
        """Ends this process where its test passes the deadline, or cannot end any more since another rank has."""
        patience = Patience(timeout)
        while not has_ended.wait(LOOK_SECONDS):
            ends = self._ends()
            own = ends[self.rank]
            own.progress = self.progress.read(self.rank)
            if not patience.is_over(ends):
                continue
            own.seconds, own.stack = patience.seconds(), stack_of_thread(threading.main_thread().ident or 0, "Current thread")
            if self._post(own, is_last=True):
                self._give_up(name, timeout)

    def _give_up(self, name: str, timeout: float) -> None:
        if self.rank == 0:
            verdict = judge(self._all_ends(time.monotonic() + POST_SECONDS, timeout))
            self.report("\n".join([name, *verdict.notes()]))
        self.close()
        os._exit(1)
