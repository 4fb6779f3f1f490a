"""Records which samples the program gets."""
import collections
import math
import operator
import struct
import time
import weakref

import torch

from ._digests import plain_tensor
from ._history import OBSERVATION
from ._objects import Names, draws_of, field, fingerprint_of, is_array, leaves_of, length_of, numberings_of, print_of, \
    prints_of_rows, subset_in
from ._state import here
from ._workers import make_board, streams_on


ROWS_MOST = 8
INPUTS_MOST = 4096  # Samples of which prints are recorded, where no loader hands them out.
PARTS_MOST = 8  # Forwards of a model that take parts of batches.
IDLE = 16  # Updates without a batch of a loader after which the program is taken to cut its batches itself.


def unpadded(sample):
    """A sequence of whole numbers without the zeros, and the labels that losses ignore, at its end: a batch makes it as long as others.

    What it begins with stays, as a shifted sequence is another sample."""
    if sample.dim() != 1 or sample.dtype not in (torch.int64, torch.int32) or sample.layout != torch.strided:
        return sample
    used = ((sample != 0) & (sample != -100)).nonzero()
    return sample[:used[-1, 0] + 1] if len(used) else sample[:0]


def sample_in(tensors, number):
    return print_of([unpadded(plain_tensor(t)[number]) for t in tensors])


def rows_of(tensors):
    """How many samples a batch has, and prints of the first of them. None where its tensors are not of as many."""
    counts = {t.shape[0] if t.dim() else 0 for t in tensors}
    if len(counts) != 1 or counts == {0}:
        return None
    count, = counts
    return [count, *(sample_in(tensors, number) for number in range(min(count, ROWS_MOST)))]


def is_share(shape, whole):
    """Whether a tensor of this shape may be a share of one of that: cut along one dimension, or some of its samples in another form.
    Noise that a program draws beside a batch is none."""
    if not shape or not whole or 0 in shape:
        return False
    if shape[0] != whole[0]:
        return shape[0] < whole[0] or math.prod(shape) < math.prod(whole)
    cut = [(here, there) for here, there in zip(shape, whole) if here != there] if len(shape) == len(whole) else []
    return len(cut) == 1 and cut[0][0] < cut[0][1]


def repeats_of(sampler):
    """How often a sampler of repeated augmentation, such as timm's or torchvision's, deals each sample."""
    times = field(sampler, "num_repeats", field(sampler, "repetitions"))
    return 3 if times is None and field(sampler, "num_selected_samples") is not None else times


def beside_others(drawn):
    """The samples' numbers in tuples that a batch sampler deals: the one whole number of each, or the one that is not the same in the
    whole batch, as a size is. None where no number, or several, may be that of the sample."""
    if len({len(each) for each in drawn}) != 1:
        return None
    columns = [column for column in zip(*drawn) if all(hasattr(each, "__index__") and type(each) is not bool for each in column)]
    if len(columns) > 1:
        columns = [column for column in columns if len({operator.index(each) for each in column}) > 1]
    return columns[0] if len(columns) == 1 else None


def indices_in(drawn):
    """The numbers of the samples; None where a loader draws something else."""
    try:
        if type(drawn) is list and drawn and all(type(each) is tuple for each in drawn):
            drawn = beside_others(drawn)
        if (isinstance(drawn, torch.Tensor) or is_array(drawn)) and drawn.ndim or type(drawn) in (list, tuple, range):
            return [operator.index(each) for each in drawn]
        return [operator.index(drawn)]
    except TypeError:
        return None


class Pass:
    """An iterator's way through its loader: batches of indices that it drew and has not handed to the program yet."""

    def __init__(self, name, has_own_samples):
        self.name, self.drawn = name, collections.deque()
        self.has_own_samples = has_own_samples  # No sampler tells them apart from those of other ranks.
        self.board = None  # On which its workers write what random numbers they begin with.


class Loaders:
    """Records which samples the program gets."""

    def __init__(self, record):
        self.record, self.passes, self.epochs = record, weakref.WeakKeyDictionary(), {}
        self.updates_since = IDLE  # A batch was handed out.
        self.shapes, self.prints = [], set()  # Of that batch's tensors.
        self.batches, self.rows = 0, None  # How many were handed out, and how many samples the last one has along dimension 0.
        self.fingerprints = {}  # Of datasets as their first passes found them: some keep what they have read.
        self.names, self.datasets, self.samplers, self.bare = (Names(kind) for kind in ("loader", "dataset", "object", "sampler"))

    def begin(self, name, dataset, sampler, batch_size, drops_batch, **more):
        self.record.at("data")
        self.epochs[name] = self.epochs.get(name, -1) + 1
        shard = {"replicas": field(sampler, "num_replicas"), "rank": field(sampler, "rank"),
                 "shuffle": field(sampler, "shuffle"), "seed": field(sampler, "seed"), "sampler_epoch": field(sampler, "epoch"),
                 "drops": field(sampler, "drop_last"), "repeats": repeats_of(sampler)} if field(sampler, "num_replicas") is not None else {}
        length = length_of(dataset, sampler)
        draws = draws_of(sampler, length)
        batches = None if not draws or not batch_size else draws // batch_size if drops_batch else -(-draws // batch_size)
        of = self.datasets.of(dataset)
        try:
            if of not in self.fingerprints:
                self.fingerprints[of] = fingerprint_of(dataset, length), numberings_of(dataset, length)
            fingerprint, numbered = self.fingerprints[of]
            part = subset_in(dataset)
            subset = None if part is None else fingerprint_of(field(part, "indices"))
        except Exception as error:
            self.record.omit("a fingerprint of a dataset", error)
            fingerprint = subset = numbered = None
        self.record.fact(name, epoch=self.epochs[name], length=length, sampler=type(sampler).__name__, batch_size=batch_size,
                         drops_batch=drops_batch is True, batches=batches, dataset=type(dataset).__name__,
                         of=of, sampler_of=self.samplers.of(sampler), fingerprint=fingerprint, subset=subset,
                         numbered=numbered or None, **shard, **more)

    def begin_loader(self, iterator, loader):
        if getattr(here, "batch", False):  # A dataset's own loader.
            return
        name = self.names.of(loader)
        batches = field(loader, "batch_sampler")
        sampler = field(loader, "sampler") if batches is None else field(batches, "sampler")
        order = next((each for each in (sampler, batches) if type(field(each, "epoch")) is int), None)
        self.passes[iterator] = Pass(name, batches is not None and field(sampler, "num_replicas") is None)
        self.begin(name, field(loader, "dataset"), sampler, field(loader if batches is None else batches, "batch_size"),
                   field(batches, "drop_last"), workers=field(loader, "num_workers"),
                   iterable=isinstance(field(loader, "dataset"), torch.utils.data.IterableDataset),
                   dataset_epoch=field(field(loader, "dataset"), "epoch"), dataset_shuffles=field(field(loader, "dataset"), "shuffle"),
                   order_epoch=field(order, "epoch"), order_shuffles=field(order, "shuffle"),
                   **({"batches_split": True} if type(field(batches, "num_replicas")) is int else {}))
        self.record.training.buffers.record_own()

    def make_iterator(self, iterator, loader, /, *args, **kwargs):
        self.begin_loader(iterator, loader)
        is_at = self.passes.get(iterator)
        if is_at is not None and field(loader, "num_workers"):
            is_at.board = make_board()
        yield
        self.tell_seed(iterator)

    def tell_seed(self, iterator):
        """The seed from which those of the worker processes are counted."""
        seed = field(iterator, "_base_seed")
        if iterator in self.passes and field(iterator, "_num_workers") and type(seed) is int:
            self.record.fact("workers", loader=self.passes[iterator].name, seed=str(seed))

    def reset(self, iterator, loader, first_iter=False):
        if not first_iter:  # Of workers that persist.
            self.begin_loader(iterator, loader)
        yield

    def tell_streams(self, iterator, is_at):
        streams = streams_on(is_at.board, field(iterator, "_num_workers"))
        if streams is not None:
            is_at.board = None
            self.record.fact("worker streams", loader=is_at.name, streams=streams)

    def draw(self, iterator):
        result, error = yield
        if error is None and iterator in self.passes:
            self.passes[iterator].drawn.append(indices_in(result))

    def hand(self, iterator):
        began = time.monotonic_ns()
        result, error = yield
        self.record.span("data", began)
        is_at = self.passes.get(iterator)
        if is_at is None:
            return
        if is_at.board is not None:
            self.tell_streams(iterator, is_at)
        indices = is_at.drawn.popleft() if is_at.drawn and not isinstance(error, StopIteration) else None
        if isinstance(error, StopIteration):
            self.record.fact(is_at.name + " exhausted")
        elif error is None:
            self.updates_since = 0
            self.observe(is_at.name, indices)
            tensors = leaves_of(result)
            self.shapes = [t.shape for t in tensors]
            needs_prints = any(model.shares < PARTS_MOST for model in self.record.training.live_models())
            self.prints = {print_of([t]) for t in tensors} if needs_prints else set()
            is_rowed = indices and tensors and all(t.dim() and t.shape[0] == len(indices) for t in tensors)
            self.batches, self.rows = self.batches + 1, len(indices) if is_rowed else None if indices else self.rows_without(is_at, tensors)
            self.record.fact("batch", loader=is_at.name, print=print_of(tensors),
                             row=[indices[0], sample_in(tensors, 0)] if is_rowed else None,
                             rows=rows_of(tensors) if is_at.has_own_samples else None)

    def rows_without(self, is_at, tensors):
        """How many samples a batch of a stream has, which has no indices."""
        counts = {len(t) if t.dim() else 0 for t in tensors} if is_at.has_own_samples else ()
        return counts.pop() if len(counts) == 1 else None

    def take(self, model, inputs):
        """Records the samples of a forward that no loader handed out, or what it gets of a batch of which it gets a part."""
        if torch.is_grad_enabled():
            (self.take_part if self.updates_since < IDLE else self.take_samples)(model, inputs)

    def take_samples(self, model, inputs):
        rows = prints_of_rows(leaves_of(inputs)) if model.rows < INPUTS_MOST else []
        model.rows += len(rows)
        if rows:
            self.record.fact("inputs", model=model.name, rows=rows)

    def take_part(self, model, inputs):
        tensors = leaves_of(inputs) if model.shares < PARTS_MOST else []
        largest = max(tensors, key=torch.Tensor.numel, default=None)
        is_whole = largest is not None and bool(self.rows) and largest.dim() > 0 and print_of([largest[:self.rows]]) in self.prints
        if is_whole or largest is not None and any(is_share(largest.shape, whole) for whole in self.shapes):
            model.shares += 1
            self.record.fact("part", model=model.name, print=print_of(tensors), **{"whole": True} if is_whole else {})

    def observe(self, name, indices):
        if indices is not None:
            self.record.history.append(OBSERVATION, {"name": name, "dtype": "int64", "shape": [len(indices)]},
                                       struct.pack("<%dq" % len(indices), *indices))

    def deal(self, sampler):
        """A sampler that no loader draws from."""
        result, error = yield
        if error is not None or getattr(here, "draw", False) or type(result) is not type(iter([])):
            return
        name, indices = self.bare.of(sampler), indices_in(list(result.__reduce__()[1][0]))
        self.begin(name, field(sampler, "dataset"), sampler, 1, False)
        self.observe(name, indices)
        self.record.fact(name + " exhausted")
