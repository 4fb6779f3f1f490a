"""The records of a process."""
import os
import struct
import sys
import time
import types

import torch

from ._by_hand import ByHand
from ._collectives import Collectives
from ._divided_layers import DividedLayers
from ._digests import bytes_of, digests_of, dtype_name, plain_tensor, sample_of
from ._gradients import Gradients
from ._history import BYTES_MOST, DIGESTS, FACT, MOMENT, SPAN, TENSORS, VALUES, told
from ._install import CODES
from ._loaders import Loaders
from ._objects import plain
from ._schedules import Schedules
from ._training import Training

VALUES_BYTES = 3 << 19  # Of one list; of larger tensors some elements are recorded.
ELEMENTS_MOST, ELEMENTS_LEAST = 4096, 16  # Of a tensor, where not all are.
# A larger tensor is digested in the first steps, and then in every seventh: no model of two or three is always passed over.
LARGE, OFTEN, SELDOM = 4 << 20, 8, 7


class Recorder:
    """The records of this process: its moments, facts, spans and lists of tensors."""

    def __init__(self, history, given):
        self.history, self.given, self.step, self.moment = history, given, 0, None
        _, _, self.values_steps, perturbed = given
        self.generator = torch.Generator().manual_seed(perturbed) if perturbed else None
        self.lists, self.omitted, self.exit_code = {}, set(), None
        self.gradients, self.collectives = Gradients(self), Collectives(self)
        self.loaders, self.training, self.by_hand = Loaders(self), Training(self), ByHand(self)
        self.schedules, self.divided_layers = Schedules(self), DividedLayers()
        self.is_known_to_dynamo, self.backwards = False, types.SimpleNamespace()  # How deep it is in one.

    def is_on(self):
        if not self.is_known_to_dynamo and "torch._dynamo.eval_frame" in sys.modules:
            self.is_known_to_dynamo = True
            skip_code = getattr(sys.modules["torch._dynamo.eval_frame"], "skip_code", None)
            for each in CODES if skip_code else ():
                skip_code(each)
        return self.history.process == os.getpid() and not self.history.has_ended

    def open(self, rank, world):
        """The file, where nothing named the rank before. A process that trains alone is rank 0 of 1."""
        if self.history.path is None:
            try:
                self.history.open(rank, world)
            except OSError as error:
                print("%s; this process is not recorded" % error, file=sys.stderr)

    def at(self, phase):
        if self.moment != (self.step, phase):
            self.moment = (self.step, phase)
            self.history.append(MOMENT, {"step": self.step, "phase": phase})

    def fact(self, name, **values):
        self.history.append(FACT, {"name": name, "values": plain(values)})

    def omit(self, what, error):
        """Says once for each kind what is not recorded."""
        kind = what, type(error)
        if kind not in self.omitted and len(self.omitted) < 1000:
            self.omitted.add(kind)
            because = error if isinstance(error, str) else told(error)
            self.history.append(FACT, {"name": "not recorded", "values": {"what": what, "because": because[:500]}})

    def span(self, name, began):
        self.history.append(SPAN, {"name": name, "from": began, "ns": time.monotonic_ns()})

    def digests(self, owner, role, named):
        self.write(self.digested(owner, role, named))

    def digested(self, owner, role, named):
        """Returns what `write` writes of tensors as they are now."""
        held = []
        for name, tensor in named:
            try:
                held.append((name, None if tensor is None else plain_tensor(tensor)))
            except TypeError as error:
                self.omit("%s of %s" % (role, owner), error)
        known = tuple((name, "", ()) if t is None else (name, dtype_name(t.dtype), tuple(t.shape)) for name, t in held)
        payload = b"".join(struct.pack("<qd", *pair) for pair in digests_of([tensor for _, tensor in held]))
        has_values = self.step < self.values_steps and role in ("parameters", "gradients", "buffers", "taken") and held
        return (owner, role, known), payload, self.values_of([tensor for _, tensor in held if tensor is not None]) if has_values else None

    def write(self, digested):
        key, payload, values = digested
        owner, role, known = key
        if key not in self.lists:
            self.lists[key] = len(self.lists)
            self.history.append(TENSORS, {"list": self.lists[key], "of": owner, "role": role, "tensors": known})
        self.history.append(DIGESTS, {"list": self.lists[key]}, payload)
        if values is not None:
            self.history.append(VALUES, {"list": self.lists[key], **values[0]}, values[1])

    def is_due(self, named):
        """Whether what belongs to these is digested in this step. Replicas that part stay apart: it shows some steps later too."""
        is_large = sum(t.numel() for _, t in named if t is not None) > LARGE
        return not is_large or self.step < max(OFTEN, self.values_steps) or self.step % SELDOM == 0

    def values_of(self, tensors):
        """(header, payload); None where the file has no room for them."""
        most = max((t.numel() for t in tensors), default=0)
        sizes = [(t.numel(), t.element_size()) for t in tensors]
        is_whole = sum(count * size for count, size in sizes) <= VALUES_BYTES
        if not is_whole:
            most = ELEMENTS_MOST
            while most > ELEMENTS_LEAST and sum(min(count, most) * size for count, size in sizes) > VALUES_BYTES:
                most //= 2
        payload = b"".join(bytes_of(sample_of(t, most)) for t in tensors)
        if self.history.bytes + len(payload) > BYTES_MOST // 2:
            self.values_steps = 0
            return self.omit("values", "half of the file is full; digests are recorded on")
        return {} if is_whole else {"elements": most}, payload
