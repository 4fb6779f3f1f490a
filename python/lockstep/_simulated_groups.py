"""Groups of simulated ranks: PyTorch makes them as it makes Gloo's, of a backend that carries in memory."""
from __future__ import annotations

import functools
import threading
import types
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Backend

c10d: Any = dist.distributed_c10d


class OfThread(threading.local):
    """The groups that the rank of this thread makes others from."""

    everyone: Any = None  # The group of all ranks, which the library made.
    named: list[int] = []  # The ranks of the group that is being made; none: all.

    def __init__(self) -> None:
        self.options: dict[Any, Any] = {}  # Of each backend, as Gloo's have them.


class IsBackend(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Backend)


class Gloo(metaclass=IsBackend):
    """In place of torch.distributed.ProcessGroupGloo: the same for simulated ranks. PyTorch makes groups of it as of Gloo's."""

    def __new__(cls, store: Any, rank: int, size: int, timeout: Any, *, enable_reconfigure: bool = False) -> Any:
        if enable_reconfigure:
            raise NotImplementedError("simulated ranks cannot reconfigure a group: use a tier of forked ranks")
        whole = of_thread.everyone
        if not of_thread.named and (rank, size) != (whole.rank(), whole.size()):
            raise ValueError(f"the default group of a simulated rank is of all {whole.size()} ranks, in which it is rank {whole.rank()}")
        part = whole.split_group(of_thread.named) if of_thread.named else whole
        backend = part._get_backend(torch.device("cpu"))
        if timeout != c10d.default_pg_timeout:  # A wait that nobody has limited ends when no rank can run any more.
            backend.set_timeout(timeout)
        of_thread.options[backend] = Backend.Options("gloo", timeout)
        return backend


def set_default_timeout(backend: Any, timeout: Any) -> None:
    backend.set_timeout(timeout)
    of_thread.options[backend]._timeout = timeout


class Profiler:
    """PyTorch's profiler, of which a process has one. A rank has it from its preparation to its end."""

    def __init__(self) -> None:
        self.thread: int | None = None
        self.prepare, self.disable = torch.autograd.profiler._prepare_profiler, torch.autograd.profiler._disable_profiler

    def begin(self, *args: Any, **more: Any) -> Any:
        if self.thread not in (None, threading.get_ident()):
            raise NotImplementedError("another simulated rank is being profiled, and a process has one profiler: profile one rank at a time, or use "
                                      "a tier of forked ranks")
        self.thread = threading.get_ident()
        return self.prepare(*args, **more)

    def end(self) -> Any:
        self.thread = None
        return self.disable()


of_thread, make_group = OfThread(), c10d._new_process_group_helper


def make_simulated_group(size: int, rank: int, ranks: list[int], *args: Any, **kwargs: Any) -> Any:
    of_thread.named = ranks
    return make_group(size, rank, ranks, *args, **kwargs)


def meet(*_: Any, **__: Any) -> Any:
    """In place of the rendezvous of init_process_group()."""
    whole = of_thread.everyone
    yield whole.get_group_store(), whole.rank(), whole.size()


def common_store(name: str) -> Any:
    """In place of a store that would connect processes: a part of the ranks' own."""
    return c10d.PrefixStore(name, of_thread.everyone.get_group_store())


def no_rpc(*_: Any, **__: Any) -> None:
    raise NotImplementedError("torch.distributed.rpc is not there for simulated ranks: use a tier of forked ranks")


def own_world(world_of_thread: Callable[[], Any]) -> Any:
    if of_thread.everyone is None:
        raise RuntimeError("a thread that a simulated rank has started cannot use torch.distributed: use a tier of forked ranks")
    return world_of_thread()


@functools.cache
def settle() -> None:
    """Once in a process, when the library has put one world for each thread into PyTorch."""
    torch._C._distributed_c10d._set_thread_isolation_mode(True)  # type: ignore[attr-defined]  # Names of groups are each thread's own.
    object.__setattr__(c10d._world, "own", functools.partial(own_world, c10d._world.own))
    profiler = Profiler()
    replaced: tuple[tuple[Any, str, Any], ...] = (
        (Backend, "options", property(lambda backend: of_thread.options[backend])), (Backend, "_set_default_timeout", set_default_timeout),
        (torch.autograd.profiler, "_prepare_profiler", profiler.begin), (torch.autograd.profiler, "_disable_profiler", profiler.end),
        (c10d, "ProcessGroupGloo", Gloo), (c10d, "_new_process_group_helper", make_simulated_group), (c10d, "rendezvous", meet),
        (dist, "rendezvous", meet), (dist, "FileStore", lambda file_name, *_, **__: common_store(file_name)),
        (dist, "TCPStore", lambda host_name, port, *_, **__: common_store(f"{host_name}:{port}")),
        (dist.rpc, "dist_autograd", types.SimpleNamespace(_init=no_rpc)))
    for place, name, value in replaced:
        setattr(place, name, value)


def join(group: Any) -> None:
    """Makes it the default group of this thread's rank, as init_process_group() does, which also has torch.compile forget what it knows."""
    of_thread.everyone = group
    settle()
    name = c10d._process_group_name([], use_hashed_name=False)
    default, _ = make_simulated_group(group.size(), group.rank(), [], c10d.Backend("gloo"), group.get_group_store(), name,
                                      timeout=c10d.default_pg_timeout, group_desc="default_pg")
    c10d._update_default_pg(default)
    c10d._world.pg_group_ranks[default] = {rank: rank for rank in range(group.size())}


def leave() -> None:
    """The groups refer to their world, which ends."""
    if dist.is_initialized():
        dist.destroy_process_group()
    of_thread.everyone = None
    of_thread.options.clear()
