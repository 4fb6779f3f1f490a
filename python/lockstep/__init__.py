"""Lockstep proves data-parallel training right.

    lockstep.start()        records what this rank of a training does, for `lockstep judge`
    lockstep.watch(model)   the same for a model whose gradients the program averages itself

The program `lockstep` is on the PATH: `lockstep --help` lists its commands.
"""
from importlib.metadata import version as _version

from lockstep_recorder import start, watch

__all__ = ["start", "watch"]
__version__ = _version("lockstep")
