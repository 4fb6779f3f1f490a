"""Perturbations of samples: parameters that a program adds to its samples, a row for each, which are each rank's own."""
import functools
import gc
import weakref

import torch

from . import _state
from ._digests import bytes_of, sample_of
from ._hooks import is_compiling, quietly

SUMS = "__add__", "__iadd__", "__sub__", "__isub__", "add", "sub"  # Of tensors, that are looked at while one is in question.
NODES = "AddBackward0", "SubBackward0"
SOUGHT_MOST, WATCHES_MOST = 8, 8  # Times in a run that holders are sought in all memory, and that sums are looked at.
BACKWARDS_MOST = 16  # Without another batch, after which a parameter is one of the model.
ELEMENTS = 1 << 12  # Of samples, by which a constant differs from them.
ASKED, SAMPLES, MODEL = range(3)  # What a parameter is: in question, a perturbation of samples, or a part of the model.


def is_in_module(leaf):
    """Whether a module has it as a parameter. Looks through all of Python's memory, and sees copies of modules too."""
    tables = [each for each in gc.get_referrers(leaf) if type(each) is dict and any(value is leaf for value in list(each.values()))]
    holders = gc.get_referrers(*tables) if tables else ()
    return any(isinstance(each, torch.nn.Module) or type(each) is dict and any(each.get("_parameters") is table for table in tables)
               for each in holders)


def summed_leaf(node, rows):
    """The leaf that a sum adds, whole or its first rows, to something without a gradient that has as many rows; None where there is none."""
    after = [each for each, _ in node.next_functions]
    other = after[0] or after[1] if len(after) == 2 and None in after else None
    is_part = type(other).__name__ == "SliceBackward0"
    leaf = other.next_functions[0][0] if is_part else other
    if type(leaf).__name__ != "AccumulateGrad" or not hasattr(node, "_input_metadata"):
        return None
    shape, own = tuple(node._input_metadata[0].shape), tuple(leaf.variable.shape)
    return leaf.variable if len(shape) > 1 and shape[0] == rows and len(own) == len(shape) and own[is_part:] == shape[is_part:] else None


class Asked:
    """A parameter that sums add to something: samples, or a constant, such as a weight."""

    def __init__(self, leaf, batch, begun):
        self.reference, self.batch, self.begun = weakref.ref(leaf), batch, begun
        self.kind, self.backwards = ASKED, 0
        self.seen = None  # The first that it was added to: of which batch, a reference to it, and a hash of it.

    def add_to(self, tensor, batch):
        if self.kind != ASKED or self.seen and self.seen[0] == batch:
            return
        seen = batch, weakref.ref(tensor), hash(bytes_of(sample_of(tensor.detach(), ELEMENTS)))
        if self.seen is None:
            self.seen = seen
        elif self.seen[1]() is not tensor and self.seen[2] != seen[2]:
            self.kind = SAMPLES
        else:
            self.kind = MODEL  # A constant.


class MovedSamples:
    """Tells perturbations of samples from parameters of the model, by what the program adds them to in two batches."""

    def __init__(self, record):
        self.record = record
        self.asked = {}  # By id of a parameter.
        self.sought, self.of_modules = 0, {}  # How often holders were sought, and whether modules had what has a shape.
        self.originals, self.watches = {}, 0  # What sums were before they are looked at, and how often that began.

    def of(self, leaf):
        asked = self.asked.get(id(leaf))
        return asked if asked is not None and asked.reference() is leaf else None

    def are_asked(self):
        return any(each.kind == ASKED and each.reference() is not None for each in self.asked.values())

    def ask(self, leaf, begun):
        """A parameter that has just been found. `begun`: what its values are."""
        self.asked[id(leaf)] = Asked(leaf, self.record.loaders.batches, begun)

    def tell(self, leaf):
        """Returns what a parameter is, as a backward reaches it."""
        asked = self.of(leaf)
        if asked is None:
            return MODEL
        if asked.kind == ASKED:
            asked.backwards += 1
            passed = self.record.loaders.batches - asked.batch
            if asked.backwards > BACKWARDS_MOST or passed > 2 or passed == 2 and asked.seen is None:
                asked.kind = MODEL
        elif asked.kind == SAMPLES and asked.begun is not None and self.is_of_a_module(leaf):
            asked.kind = MODEL
        elif asked.kind == SAMPLES:
            asked.begun = None
        return asked.kind

    def is_of_a_module(self, leaf):
        if not isinstance(leaf, torch.nn.Parameter):
            return False
        shape = tuple(leaf.shape)
        if self.sought < SOUGHT_MOST:
            self.sought += 1
            is_held = is_in_module(leaf)
            self.of_modules[shape] = self.of_modules.get(shape, False) or is_held
            return is_held
        return self.of_modules.get(shape, True)

    def see(self, one, other):
        """A sum of two tensors."""
        for part, tensor in (one, other), (other, one):
            asked = self.of(part) or self.of(part._base) if isinstance(part, torch.Tensor) else None
            if asked is not None and torch.is_grad_enabled():
                is_data = type(tensor) is torch.Tensor and tensor.grad_fn is None and not tensor.requires_grad
                if is_data and tensor.shape == part.shape and part.dim() > 1 and len(part) > 1 and len(part) == self.record.loaders.rows:
                    asked.add_to(tensor, self.record.loaders.batches)
                elif asked.kind == ASKED:
                    asked.kind = MODEL

    def watch(self):
        """Looks at sums while any parameter is in question, and at no others."""
        self.asked = {key: each for key, each in self.asked.items() if each.reference() is not None}
        if self.are_asked() and not self.originals and self.watches < WATCHES_MOST:
            self.watches += 1
            for name in SUMS:
                self.originals[name] = torch.Tensor.__dict__.get(name)
                setattr(torch.Tensor, name, seeing(getattr(torch.Tensor, name)))
        elif self.originals and not self.are_asked():
            for name, original in self.originals.items():
                if original is None:
                    delattr(torch.Tensor, name)
                else:
                    setattr(torch.Tensor, name, original)
            self.originals = {}


def seeing(original):
    @functools.wraps(original)
    def function(*args, **kwargs):
        if len(args) > 1 and not is_compiling() and _state.recorder.is_on():
            quietly("a sum", _state.recorder.by_hand.moved_samples.see, *args[:2])
        return original(*args, **kwargs)
    return function
