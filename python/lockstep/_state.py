"""The state that a test may leave behind in a process that is kept."""
from __future__ import annotations

import _signal
import contextlib
import gc
import logging
import multiprocessing
import os
import pathlib
import signal
import socket
import sys
import threading
from typing import Any

import torch
import torch._C._distributed_c10d as c10d

RANK_VARIABLES = {b"RANK", b"WORLD_SIZE", b"LOCAL_RANK", b"LOCAL_WORLD_SIZE", b"PYTEST_CURRENT_TEST"}


def umask() -> int:
    """To set it is the only other way to ask for it, and is seen by other threads."""
    file = os.open("/proc/self/status", os.O_RDONLY)
    try:
        return int(os.read(file, 4096).partition(b"Umask:")[2].split(None, 1)[0], 8)
    finally:
        os.close(file)


# Each flag of the process: how it is read and how it is set.
FLAGS: dict[str, tuple[Any, Any]] = {
    "the recursion limit": (sys.getrecursionlimit, sys.setrecursionlimit),
    "garbage collection": (gc.isenabled, lambda on: gc.enable() if on else gc.disable()),
    "the timeout of sockets": (socket.getdefaulttimeout, socket.setdefaulttimeout),
    "the umask": (umask, os.umask),
    "PyTorch's default dtype": (torch.get_default_dtype, torch.set_default_dtype),
    "PyTorch's grad mode": (torch.is_grad_enabled, torch.set_grad_enabled),
    "PyTorch's number of threads": (torch.get_num_threads, torch.set_num_threads),
    "PyTorch's deterministic algorithms": (torch.are_deterministic_algorithms_enabled, torch.use_deterministic_algorithms),
    "PyTorch's anomaly detection": (torch.is_anomaly_enabled, torch.set_anomaly_enabled),
    "PyTorch's float32 matmul precision": (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    "PyTorch's default device": (torch.get_default_device, torch.set_default_device),
    "the debug level of torch.distributed": (c10d.get_debug_level, c10d.set_debug_level),
}


# PyTorch handles SIGCHLD from its first worker of a DataLoader on.
HANDLED = sorted({each for each in signal.Signals} - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD})


class State:
    """The environment, the folder, Python's paths, a timer, the root logger, handlers of signals and the flags of a process."""

    def __init__(self) -> None:
        self.environment = {name: value for name, value in os.environ._data.items() if name not in RANK_VARIABLES}  # type: ignore[attr-defined]
        self.folder = os.readlink("/proc/self/cwd")  # Of one that was removed too.
        self.paths = list(sys.path)
        self.has_timer = signal.getitimer(signal.ITIMER_REAL)[0] > 0
        self.log_level = logging.getLogger().level
        self.log_handlers = list(logging.getLogger().handlers)
        self.handlers = {number: _signal.getsignal(number) for number in HANDLED}  # signal's makes names of numbers, which takes a while.
        self.flags = {name: read() for name, (read, _) in FLAGS.items()}

    def __getstate__(self) -> dict[str, Any]:
        """Another process has handlers of its own."""
        return {**vars(self), "log_handlers": None, "handlers": {}}

    def apply(self) -> None:
        for name in os.environ._data.keys() - self.environment.keys() - RANK_VARIABLES:  # type: ignore[attr-defined]
            del os.environb[name]
        os.environb.update({name: value for name, value in self.environment.items() if os.environb.get(name) != value})
        with contextlib.suppress(FileNotFoundError):
            os.chdir(self.folder)
        sys.path[:] = self.paths
        signal.setitimer(signal.ITIMER_REAL, 0)
        if logging.getLogger().level != self.log_level:
            logging.getLogger().setLevel(self.log_level)
        if self.log_handlers is not None:
            logging.getLogger().handlers[:] = self.log_handlers
        for number, handler in self.handlers.items():
            if handler is not None and _signal.getsignal(number) != handler:  # None is not Python's.
                signal.signal(number, handler)
        for name, (read, set_it) in FLAGS.items():
            if name in self.flags and read() != self.flags[name]:
                set_it(self.flags[name])

    def differences(self, after: State) -> list[str]:
        """A phrase for each thing that is another one in `after`; handlers of another process are none of these."""
        names = sorted(self.environment.keys() | after.environment.keys())
        found = [f"the environment variable {os.fsdecode(name)}" for name in names
                 if self.environment.get(name) != after.environment.get(name)]
        found += [f"{name}, {after.flags[name]}" for name in self.flags if self.flags[name] != after.flags[name]]
        for what, mine, other in (("the working folder", self.folder, after.folder), ("sys.path", self.paths, after.paths),
                                  ("the root logger's level", self.log_level, after.log_level),
                                  ("the root logger's handlers", self.log_handlers, after.log_handlers)):
            if mine != other and other is not None:
                found.append(f"{what}, {other}")
        found += [f"the handler of {number.name}" for number, handler in self.handlers.items() if after.handlers.get(number, handler) != handler]
        found += ["a timer that runs"] * after.has_timer
        return found

    def restore(self) -> list[str]:
        """Makes this process's state the same, and returns what was another one."""
        found = self.differences(State())
        if found:
            self.apply()
        return found

    def settle(self, own: State) -> State:
        """Makes this process's state the same, which is `own`, and returns what it is then."""
        if own.differences(self):
            self.apply()
            own = State()
        return own


def has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def children_of(task: str) -> list[str]:
    try:
        with open(f"/proc/self/task/{task}/children", "rb", buffering=0) as file:
            return file.read().decode().split()
    except (FileNotFoundError, ProcessLookupError):  # It has just ended.
        return []


def program_of(pid: str) -> str:
    """The program's file: a starting program has the name of the thread that made it for a moment. One that has ended has a name alone."""
    try:
        return os.path.basename(os.readlink(f"/proc/{pid}/exe"))
    except FileNotFoundError:
        return pathlib.Path("/proc", pid, "comm").read_text().strip()


def running() -> set[str]:
    """Threads, processes and open files that a test may have left."""
    multiprocessing.active_children()  # Waits for those that have ended.
    none_of_a_test = threading.main_thread().__class__, threading._DummyThread  # Of C++, as simulated ranks are.
    found = {f"the thread {thread.name}" for thread in threading.enumerate() if not isinstance(thread, none_of_a_test)}
    for pid in [pid for task in (os.listdir("/proc/self/task") if has_children() else ()) for pid in children_of(task)]:
        found.add(f"the process {pid} ({program_of(pid)})")
    files = {}
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            files[number] = os.readlink(f"/proc/self/fd/{number}")
    uses_gpu = any(name.startswith("/dev/nvidia") for name in files.values())  # CUDA's driver has pipes of its own.
    of_tests = ("/",) if uses_gpu else ("/", "pipe:")
    return found | {f"the file {name}, {number}" for number, name in files.items()
                    if name.startswith(of_tests) and not name.startswith(("/dev/", "/memfd:", "/proc/"))}
