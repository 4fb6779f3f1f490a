"""Lockstep finds where data-parallel training is wrong.

    lockstep.start()        records what this rank of a training does, for `lockstep judge`
    lockstep.watch(model)   the same for a model whose gradients the program averages itself

    @lockstep.world(2, 3)   a test of pytest runs in worlds of these sizes, its body on every rank
    lockstep.run_world()    a function does, without pytest
    lockstep.collectives()  what this rank has issued in this test so far
    lockstep.inject()       plants a failure in one of them
    lockstep.strategies     for tests of Hypothesis in worlds: models, batches, uneven splits
    lockstep.same_as_one_process()   training in worlds is compared with training in one process

The program `lockstep` is on the PATH: `lockstep --help` lists its commands.
"""
from importlib import import_module as _import_module
from importlib.metadata import PackageNotFoundError as _PackageNotFoundError
from importlib.metadata import version as _version
from typing import TYPE_CHECKING, Any

from lockstep_recorder import start, watch

if TYPE_CHECKING:
    from . import strategies
    from ._api import run_world, world
    from ._calls import Collective, collectives
    from ._inject import InjectedError, inject
    from ._parity import same_as_one_process
    from ._verdict import WorldError

__all__ = ["Collective", "InjectedError", "WorldError", "collectives", "inject", "run_world", "same_as_one_process", "start", "strategies",
           "watch", "world"]
__version__ = _version("lockstep")
# Loaded at first use: they import PyTorch.
_MODULES = {"Collective": "_calls", "InjectedError": "_inject", "WorldError": "_verdict", "collectives": "_calls",
            "inject": "_inject", "run_world": "_api", "same_as_one_process": "_parity", "world": "_api"}


def _check_torch() -> None:
    """The libraries of this package have the layout of classes of one series of PyTorch."""
    series = __version__.partition("+torch")[2]
    try:
        found = _version("torch")
    except _PackageNotFoundError:
        raise ImportError(f"lockstep needs PyTorch {series}, which is not installed here") from None
    if not found.startswith(series + "."):
        raise ImportError(f"PyTorch here is {found}, and this package of Lockstep is for {series}: install the Lockstep of that release")


def __getattr__(name: str) -> Any:
    if name == "strategies":
        return _import_module(".strategies", __name__)
    if name not in _MODULES:
        raise AttributeError(f"module 'lockstep' has no attribute {name!r}")
    _check_torch()
    globals()[name] = found = getattr(_import_module("." + _MODULES[name], __name__), name)  # And is not asked for again.
    return found
