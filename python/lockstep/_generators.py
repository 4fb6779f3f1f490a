"""Python's and NumPy's generators, of which a process has one each and each simulated rank its own."""
from __future__ import annotations

import _random
import ctypes
import random
import sys
from typing import Any

# random.getstate() makes a tuple of these, which takes as long as a small collective.
PYTHON_BYTES = _random.Random.__basicsize__ - object.__basicsize__
in_python = (ctypes.c_char * PYTHON_BYTES).from_address(id(random._inst) + object.__basicsize__)  # type: ignore[attr-defined]
NUMPY_BYTES = 625 * 4  # The words of a Mersenne Twister, and its position.


class Generators:
    """The generators' state, as it was when it was made or kept last."""

    has_spare_normal = False  # Now, in the process: NumPy draws them in pairs.

    def __init__(self) -> None:
        self.numpy: Any = sys.modules["numpy"].random if "numpy" in sys.modules else None
        self.twister: Any = None
        self.words, self.state = b"", ("", (), 0, 1)
        self.keep()

    def memory_of_numpy(self) -> Any:
        twister = self.numpy.mtrand._rand._bit_generator
        if twister is not self.twister:
            self.twister, self.memory = twister, None
            if type(twister) is self.numpy.MT19937:
                self.memory = (ctypes.c_char * NUMPY_BYTES).from_address(twister.ctypes.state_address)
        return self.memory

    def keep(self) -> None:
        self.python, self.spare_normal = in_python.raw, random._inst.gauss_next  # type: ignore[attr-defined]
        if self.numpy:
            memory = self.memory_of_numpy()
            words = memory.raw if memory else b""
            if not words or words != self.words or self.state[3]:
                self.words, self.state = words, self.numpy.get_state()
                Generators.has_spare_normal = bool(self.state[3])

    def restore(self) -> None:
        in_python.raw, random._inst.gauss_next = self.python, self.spare_normal  # type: ignore[attr-defined]
        if self.numpy:
            memory = self.memory_of_numpy()
            if memory and self.words and not self.state[3] and not Generators.has_spare_normal:
                memory.raw = self.words
            else:
                self.numpy.set_state(self.state)
                Generators.has_spare_normal = bool(self.state[3])
