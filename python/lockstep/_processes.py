"""Forked processes that end with the process that forked them, and all that they start with them."""
from __future__ import annotations

import contextlib
import ctypes
import enum
import faulthandler
import gc
import os
import select
import signal
import sys
import time
import traceback
import unittest
import warnings
from collections.abc import Callable, Iterable, Iterator
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

LIBC = ctypes.CDLL(None, use_errno=True)
PR_SET_PDEATHSIG = 1
STACKS_SIGNAL = signal.SIGRTMAX - 1  # A process answers it with the Python stacks of its threads.
STACKS_SECONDS_MAX = 2.0
DISMISSED_SECONDS = 2.0


class Capture(enum.Enum):
    """The output of a process that its parent keeps."""

    NOTHING = enum.auto()
    FILES = enum.auto()  # The files 1 and 2; sys.stdout and sys.stderr stay what they are.
    ALL = enum.auto()


def ready(descriptors: Iterable[int], seconds: float) -> list[int]:
    """Returns those of these that can be read or are closed, once one can or the time is over. multiprocessing's takes longer than a test."""
    poll = select.poll()
    for each in descriptors:
        poll.register(each, select.POLLIN)
    return [each for each, _ in poll.poll(seconds * 1000)]


def end_with_parent() -> None:
    LIBC.prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


def fork_quietly() -> int:
    """Python 3.12 and later warn of a fork beside other threads, of which a test cannot know."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


class Guard:
    """A process that kills the groups of forked processes once this process is gone, however it went."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        read, self.write = os.pipe()
        self.pid = fork_quietly()
        if self.pid == 0:
            self._watch(read)
        os.close(read)

    def _watch(self, read: int) -> None:
        try:
            os.setsid()
            for standard in (0, 1, 2):
                os.dup2(os.open(os.devnull, os.O_RDWR), standard)
            os.dup2(read, 3)
            os.closerange(4, os.sysconf("SC_OPEN_MAX") if os.sysconf("SC_OPEN_MAX") < 1 << 20 else 1 << 20)
            groups: set[int] = set()
            with open(3, encoding="ascii") as lines:
                for line in lines:
                    (groups.add if line[0] == "+" else groups.discard)(int(line[1:]))
            for group in groups:
                kill_group(group)
        finally:
            os._exit(0)

    def note(self, sign: str, pid: int) -> None:
        os.write(self.write, f"{sign}{pid}\n".encode())


guard: Guard | None = None


def the_guard() -> Guard:
    global guard
    if guard is None or guard.owner != os.getpid():
        guard = Guard()
    return guard


def kill_group(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


@contextlib.contextmanager
def subtest(_: object, msg: object = None, **params: Any) -> Iterator[None]:
    """In place of unittest's and pytest's subtests, which would keep a failure in this process: here it ends the test."""
    try:
        yield
    except unittest.SkipTest:
        pass
    except BaseException as error:
        if type(error).__name__ != "Skipped":  # pytest's, which is not known here.
            names = [str(msg)] * isinstance(msg, str) + [f"{name}={value!r}" for name, value in params.items()]
            error.add_note(f"in the subtest {', '.join(names)}")
            raise


class Process:
    """A forked process that runs `body`, with a connection to it, its output, and the file of its Python stacks."""

    def __init__(self, body: Callable[[Connection], None], capture: Capture) -> None:
        keeper = the_guard()
        self.connection, theirs = Pipe()
        self.stacks, self.output = os.memfd_create("stacks"), {}
        self.capture = capture
        if capture is not Capture.NOTHING:
            self.output = {name: os.memfd_create(name) for name in ("stdout", "stderr")}
        self.marks: dict[int, int] = {}
        self.is_idle = self.is_dismissed = False  # It waits for what comes next.
        self.status: int | None = None  # As waitpid has it, once the process has ended.
        parent = os.getpid()
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = fork_quietly()
        if self.pid == 0:
            try:
                self._settle(parent, keeper)
                body(theirs)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            finally:
                for stream in (sys.stdout, sys.stderr):
                    with contextlib.suppress(Exception):  # A test may have closed it, or set another one.
                        stream.flush()
                os._exit(0)
        theirs.close()
        try:
            os.setpgid(self.pid, self.pid)  # Here and there, so that neither is late.
        except (PermissionError, ProcessLookupError):
            pass
        keeper.note("+", self.pid)
        self.handle = os.pidfd_open(self.pid)

    def _settle(self, parent: int, keeper: Guard) -> None:
        os.setpgid(0, 0)
        end_with_parent()
        if os.getppid() != parent:
            os._exit(1)
        os.register_at_fork(after_in_child=end_with_parent)
        gc.freeze()  # A collection would write to all that is shared with the parent, and so copy it.
        os.close(keeper.write)
        self.connection.close()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for number, (name, file) in enumerate(self.output.items(), 1):
            os.dup2(file, number)
            if self.capture is Capture.ALL:
                setattr(sys, name, open(number, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False))
        unittest.TestCase.subTest = subtest  # type: ignore[method-assign,assignment]
        faulthandler.cancel_dump_traceback_later()
        faulthandler.enable(self.stacks)
        faulthandler.register(STACKS_SIGNAL, self.stacks)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def mark(self) -> None:
        """Begins `printed` anew."""
        self.marks = {file: os.fstat(file).st_size for file in (self.stacks, *self.output.values())}

    def _since_mark(self, file: int) -> str:
        begin = self.marks.get(file, 0)
        return os.pread(file, os.fstat(file).st_size - begin, begin).decode("utf-8", "backslashreplace")

    def printed(self) -> dict[str, str]:
        return {name: self._since_mark(file) for name, file in self.output.items()}

    def stack(self) -> str:
        return self._since_mark(self.stacks)

    def dismiss(self) -> None:
        """Lets the process end, if it waits for what comes next."""
        self.is_dismissed = self.is_idle
        if self.is_idle:
            with contextlib.suppress(OSError):
                self.connection.send(None)

    def has_sent(self) -> bool:
        return bool(ready([self.connection.fileno()], 0))

    def has_ended(self, seconds: float = 0) -> bool:
        return bool(ready([self.handle], seconds))

    def reap(self) -> None:
        if self.status is None:
            self.status = os.waitpid(self.pid, 0)[1]

    def close(self) -> None:
        """Kills the process, unless it ends before, and what it started."""
        if self.is_dismissed:
            self.has_ended(DISMISSED_SECONDS)
        kill_group(self.pid)
        self.reap()
        if guard is not None:
            guard.note("-", self.pid)
        self.connection.close()
        for file in (self.handle, self.stacks, *self.output.values()):
            os.close(file)


def ask_for_stacks(processes: Iterable[Process]) -> None:
    """Their `stack()` says where they are, of those that answer."""
    waiting = {process: os.fstat(process.stacks).st_size for process in processes}
    before = dict(waiting)
    for process in waiting:
        os.kill(process.pid, STACKS_SIGNAL)
    end = time.monotonic() + STACKS_SECONDS_MAX
    while waiting and time.monotonic() < end:
        time.sleep(0.02)
        sizes = {process: os.fstat(process.stacks).st_size for process in waiting}
        waiting = {process: size for process, size in sizes.items() if size in (before[process],) or size != waiting[process]}
