"""Values of parameters that a program frees behind its last reduction, at the end of a function say."""
import functools
import weakref

import torch

from . import _state
from ._hooks import quietly

USERS = 3  # Of the memory of a parameter that dies: itself, and two of the recorder.


def is_in_use(tensor):
    """Whether the parameter whose memory this was dies with it. What sets `p.data` leaves it behind."""
    count = getattr(torch._C, "_storage_Use_Count", None)
    return count is not None and count(tensor.untyped_storage()._cdata) >= USERS


class LastValues:
    """Keeps no parameter alive: as the first of them dies, `take` gets all of them."""

    def __init__(self, take):
        self.take, self.held = take, {}  # By name: references, and tensors in the memory of parameters as long as those live.

    def keep(self, named):
        if not self.held:
            self.held = {name: (weakref.ref(p, functools.partial(self.lose, name)), p.detach()) for name, p in named}

    def forget(self):
        self.held = {}

    def lose(self, name, reference):
        """One of them dies."""
        if self.held.get(name, (None,))[0] is reference and _state.recorder.is_on():
            held, self.held = self.held, {}
            quietly("the last values of parameters", self.take_of, held)

    def take_of(self, held):
        each = [(name, reference() is None, reference() if reference() is not None else tensor) for name, (reference, tensor) in held.items()]
        self.take([(name, tensor) for name, is_dead, tensor in each if not is_dead or is_in_use(tensor)])
