"""One process group for each rank where ranks are threads of one process, and the first import of all."""

import gc
import inspect
import os
import threading

# The imports below make the folder of a cache of torch.compile, which nothing here uses: one that is there already.
CACHE = "TORCHINDUCTOR_CACHE_DIR"
given_cache = os.environ.get(CACHE)
os.environ.setdefault(CACHE, os.path.dirname(os.__file__))

import torch
import torch.distributed as dist
import torch.distributed.distributed_c10d as c10d
from torch.nn.parallel import DistributedDataParallel


class Refused(Exception):
    """PyTorch does not have this option."""


class CppError(Exception):
    """Stands for an exception of C++ while it passes through Python."""


def refuse_unknown(keywords):
    """Options of DistributedDataParallel that this release does not have yet."""
    known = inspect.signature(DistributedDataParallel.__init__).parameters
    for name in keywords:
        if name not in known:
            release = ".".join(torch.__version__.split(".")[:2])
            raise Refused(f"PyTorch {release}'s DistributedDataParallel has no {name}")


COMPUTED = "pg_config_info"
TABLES = [name for name, each in vars(c10d._World).items()
          if isinstance(each, property) and name != COMPUTED and isinstance(getattr(c10d._world, name), dict)]


class World:
    """The state that init_process_group leaves behind, for one group that exists already. Releases have tables of their own."""

    def __init__(self):
        self.default_pg, self.group_count, self.comms = None, 0, []
        vars(self).update((name, {}) for name in TABLES)


class Worlds:
    """In place of c10d._world, of which a process has one: simulated ranks are threads of one process."""

    def __init__(self):
        object.__setattr__(self, "of_threads", {})

    def own(self):
        thread = threading.get_ident()
        if thread not in self.of_threads:
            self.of_threads[thread] = World()
        return self.of_threads[thread]

    def __getattr__(self, name):
        return getattr(self.own(), name)

    def __setattr__(self, name, value):
        setattr(self.own(), name, value)


worlds = Worlds()


def adopt(group):
    """Makes `group` the default group of this thread."""
    world = worlds.own()
    if world.default_pg is group:
        return
    world.pg_map[group] = ("gloo", None)
    world.pg_names[group] = group.group_name
    world.pg_group_ranks[group] = {rank: rank for rank in range(group.size())}
    world.pg_backend_config[group] = "cpu:gloo"
    world.default_pg = group


def leave():
    """Forgets the groups of this thread."""
    worlds.of_threads.pop(threading.get_ident(), None)


def let_go():
    """Python frees what refers to itself at some later moment: here it does so when a case lets go of it."""
    leave()
    gc.collect()


class PartlyUsed(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.used, self.unused = torch.nn.Linear(1, 1), torch.nn.Linear(1, 1)

    def forward(self, x):
        return self.used(x)


def warm_up():
    """The first DistributedDataParallel of a process imports for seconds. It runs on a group of one
    that communicates with nobody, and makes no backward pass, which would start threads."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", rank=0, world_size=1, store=FakeStore())
    for options in ({}, {"find_unused_parameters": True}, {"static_graph": True}):
        ddp = DistributedDataParallel(PartlyUsed(), **options)
        with ddp.no_sync():
            ddp(torch.ones(1, 1))
        ddp(torch.ones(1, 1))
        ddp._get_ddp_logging_data()
    del ddp
    dist.destroy_process_group()
    torch.set_num_threads(1)
    c10d._world = worlds
    gc.collect()
    gc.freeze()  # what is alive now stays, and no later collection looks at it
    gc.disable()
    if given_cache is None:
        os.environ.pop(CACHE, None)
