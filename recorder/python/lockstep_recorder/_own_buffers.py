"""Buffers of layers that no wrapper keeps the same on all ranks."""
import weakref

import torch

from ._digests import plain_tensor, sample_of
from ._objects import field

PASSES_MOST = 32  # Passes at whose begin they are recorded.
BUFFERS_MOST, ELEMENTS_MOST = 64, 1024  # Buffers that are recorded, and elements of each.


class OwnBuffers:
    """Knows the buffers that layers registered, such as running statistics or a centre, and that no wrapper broadcasts."""

    def __init__(self, record):
        self.record, self.layers = record, {}  # By id, in the order in which layers registered their first.
        self.kept = {}  # By id: layers whose buffers a wrapper broadcasts, which may be gone before them.
        self.step, self.passes = -1, 0

    def register(self, layer):
        self.layers.setdefault(id(layer), weakref.ref(layer))
        yield

    def keep(self, ddp, module):
        """A wrapper broadcasts them. One that knows of no buffer as it is made broadcasts none that a layer registers later either, as a
        mask of pruning."""
        if ddp.broadcast_buffers and field(ddp, "modules_buffers"):
            self.kept.update((id(each), weakref.ref(each)) for each in torch.nn.Module.modules(module))

    def record_end(self):
        """Records them at the end of a program whose batches are all of one pass, such as an endless one: none begins behind an update."""
        if self.passes <= 1 and self.record.step > 0:
            self.record.at("data")
            self.record_own()

    def record_own(self):
        """Records them as a pass over data begins: a program may make them the same behind an update, or before an evaluation."""
        if not self.layers or self.step == self.record.step or self.passes == PASSES_MOST:
            return
        self.step, self.passes = self.record.step, self.passes + 1
        kept = {key for key, reference in self.kept.items() if reference() is not None}
        named, counts = [], {}
        for key, reference in list(self.layers.items()):
            layer = reference()
            if layer is None:
                del self.layers[key]
            elif key not in kept and len(named) < BUFFERS_MOST:
                kind = type(layer).__name__
                number = counts[kind] = counts.get(kind, -1) + 1
                buffers = torch.nn.Module.named_buffers(layer, recurse=False)
                named += [("%s %d %s" % (kind, number, name), tensor) for name, tensor in buffers if tensor.is_floating_point() and not tensor.is_meta]
        if named:
            self.record.digests("layers", "own buffers", [(name, sample_of(plain_tensor(tensor), ELEMENTS_MOST)) for name, tensor in named])
