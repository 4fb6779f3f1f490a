"""Describes objects of the program, without running code of their classes."""
import array
import collections
import contextlib
import hashlib
import math
import os
import pathlib
import random
import sys
import weakref

import torch

from ._digests import bytes_of, plain_tensor, sample_of


def attributes_of(thing):
    """The attributes that the object itself holds, and not its class."""
    try:
        return object.__getattribute__(thing, "__dict__")
    except AttributeError:
        return {}


def field(thing, name, default=None):
    return attributes_of(thing).get(name, default)


def number_in(value):
    """The number of Python that a scalar of numpy holds; another value itself."""
    kinds = getattr(sys.modules.get("numpy"), "generic", ())
    return kinds.item(value) if isinstance(value, kinds) else value


def plain(value, depth=4):
    """A value of a fact as JSON: numbers that JSON lacks as text, a tensor of one element, or a scalar of numpy, as its number."""
    value = number_in(value)
    kind = type(value)
    if isinstance(value, torch.Tensor):
        try:
            value = plain_tensor(value)
            value = value.item() if value.numel() == 1 else "a tensor"
        except (TypeError, RuntimeError):
            value = "a tensor"
        kind = type(value)
    if kind in (list, tuple) and depth:
        return [plain(each, depth - 1) for each in value]
    if kind is dict and depth:
        return {key if type(key) is str else str(key): plain(each, depth - 1) for key, each in value.items()}
    if kind is float:
        return value if math.isfinite(value) else str(value)
    if kind is int:
        return value if -(1 << 63) <= value < 1 << 63 else str(value)
    return value if value is None or kind in (bool, str) else kind.__name__


class Names:
    """Numbers objects in the order in which they are first seen, and no two alike. Knows them by their identity."""

    def __init__(self, kind):
        self.kind, self.count, self.known = kind, 0, {}

    def of(self, thing):
        reference, name = self.known.get(id(thing), (None, None))
        if reference is None or reference() is not thing:
            name, self.count = "%s %d" % (self.kind, self.count), self.count + 1
            try:
                self.known[id(thing)] = weakref.ref(thing), name
            except TypeError:  # Nothing tells when another takes its place in memory.
                pass
        return name

    def live(self):
        return [thing for thing in (reference() for reference, _ in self.known.values()) if thing is not None]


def whole_hash(content):
    """Hashes bytes to a signed number of 64 bits."""
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little", signed=True)


def other_generators():
    """The states of the random generators of Python, and of numpy where it is loaded, by their hashes."""
    named = [("python", hash(random.getstate()[1]))]
    if "numpy.random" in sys.modules:
        state = sys.modules["numpy.random"].get_state(legacy=False)["state"]
        content = b"%d" % state["pos"] + state["key"].tobytes() if "key" in state else repr(state).encode()
        named.append(("numpy", whole_hash(content)))
    return [(name, torch.tensor([number])) for name, number in named]


COLUMN_LEAST = 8  # A list of so many values is taken for one of the samples, where nothing tells how many these are.


class Unknown(Exception):
    """An object whose content only its own code could tell."""


def is_array(value):
    return (type(value).__module__, type(value).__name__) == ("numpy", "ndarray")


def add_content(value, into, depth=0, length=None):
    """Feeds a hash with a value that is made of builtin types, tensors and datasets. Runs no code of others."""
    data, kind = torch.utils.data, type(value)
    if depth > 6:
        raise Unknown
    if isinstance(value, torch.Tensor):
        value = plain_tensor(value)
        into.update(("%s %s" % (value.dtype, list(value.shape))).encode() + bytes_of(sample_of(value, 512)))
    elif kind in (bool, int, float, str, bytes, type(None), range):
        into.update(repr(value).encode("utf-8", "replace"))
    elif kind in (list, tuple) and all(type(each) is int for each in value):
        into.update(b"integers" + (array.array("q", value).tobytes() if all(abs(each) < 1 << 62 for each in value) else b""))
    elif kind in (list, tuple):
        into.update(b"%d values" % len(value))
        for number in range(0, len(value), -(-len(value) // 512) or 1):
            add_content(value[number], into, depth + 1)
    elif kind is dict:
        add_content([list(value), list(value.values())], into, depth + 1)
    elif isinstance(value, pathlib.PurePath):
        into.update(os.fspath(value).encode("utf-8", "replace"))
    elif is_array(value) and value.dtype.hasobject is False:
        flat = value.reshape(-1)[::max(1, value.size // 512)]
        into.update(("%s %s" % (value.dtype, value.shape)).encode() + flat.tobytes())
    elif isinstance(value, data.TensorDataset):
        add_content(list(field(value, "tensors")), into, depth + 1)
    elif isinstance(value, data.Subset):
        add_content([field(value, "dataset"), field(value, "indices")], into, depth + 1)
    elif isinstance(value, data.ConcatDataset):
        add_content(list(field(value, "datasets")), into, depth + 1)
    elif isinstance(value, data.Dataset) and not isinstance(value, data.IterableDataset):
        add_samples(value, into, depth, length)
    else:
        raise Unknown


def fingerprint_of(dataset, length=None):
    """16 digits that are the same for datasets of the same content; None where only the dataset's own code could tell."""
    into = hashlib.sha256()
    try:
        add_content(dataset, into, length=length)
    except Unknown:
        return None
    return into.hexdigest()[:16]


NUMBERED_MOST, NUMBERED_BYTES = 1 << 17, 1 << 24  # Values of a list whose order is looked at, and their bytes in a tensor.


def numberings_of(dataset, length=None, depth=0):
    """The attributes that number a dataset's samples or names, each with a digest of its values in their order and one of them sorted: a
    list of a value for each sample, such as its file, most of which differ, or a dict of texts and numbers, such as those of classes."""
    found = {}
    attributes = attributes_of(dataset) if depth < 4 else {}
    for name, value in sorted(attributes.items()):
        several = value if type(value) in (list, tuple) and len(value) <= 64 else ()
        for number, each in enumerate(several):
            if isinstance(each, torch.utils.data.Dataset):
                found.update(("%s %d %s" % (name, number, of), known) for of, known in numberings_of(each, None, depth + 1).items())
        if isinstance(value, torch.utils.data.Dataset):
            found.update(numberings_of(value, None, depth + 1))
            continue
        with contextlib.suppress(Unknown, TypeError):
            hashes = hashes_of(value, length)
            if hashes and 2 * len(set(hashes)) >= len(hashes):
                found[name] = [hashlib.sha256(b"".join(each)).hexdigest()[:16] for each in (hashes, sorted(hashes))]
            elif is_naming(value):
                ordered = sorted(value.items()), [sorted(value), sorted(value.values())]
                found[name] = [hashlib.sha256(repr(each).encode("utf-8", "replace")).hexdigest()[:16] for each in ordered]
    return found


def subset_in(dataset, depth=0):
    """The Subset that a dataset is, or that it wraps, to transform its samples say."""
    if type(dataset) is torch.utils.data.Subset:
        return dataset
    within = [each for each in attributes_of(dataset).values() if isinstance(each, torch.utils.data.Dataset)] if depth < 4 else ()
    return subset_in(within[0], depth + 1) if len(within) == 1 else None


def is_naming(value):
    return type(value) is dict and 2 <= len(value) <= NUMBERED_MOST and all(type(key) is str for key in value) and \
        all(type(number) is int for number in value.values()) and len(set(value.values())) == len(value)


def hashes_of(value, length):
    """Those of the values of a list that has one for each sample; None of another thing."""
    def hash_of(each):
        into = hashlib.blake2b(digest_size=8)
        add_content(each, into, 3)
        return into.digest()
    is_block = isinstance(value, torch.Tensor) and value.layout == torch.strided or is_array(value) and not value.dtype.hasobject
    if not (is_block and value.ndim or type(value) in (list, tuple)):
        return None
    count = len(value)
    if count > NUMBERED_MOST or count < COLUMN_LEAST or length and count != length:
        return None
    if not is_block:
        return [hash_of(each) for each in value]
    size = (value.numel() * value.element_size() if isinstance(value, torch.Tensor) else value.nbytes)
    if not size or size > NUMBERED_BYTES:
        return None
    data = bytes_of(plain_tensor(value)) if isinstance(value, torch.Tensor) else value.tobytes()
    return [hashlib.blake2b(data[at:at + size // count], digest_size=8).digest() for at in range(0, size, size // count)]


def add_samples(dataset, into, depth, length):
    """Feeds a hash with what a dataset of the program's own holds of each sample, such as its files and labels, or with the dataset
    that it wraps."""
    any_known = False
    for name, value in sorted(attributes_of(dataset).items()):
        is_column = type(value) in (list, tuple) or (isinstance(value, torch.Tensor) or is_array(value)) and value.ndim > 0
        is_whole = is_column and len(value) == length if length else is_column and len(value) >= COLUMN_LEAST
        if is_whole or isinstance(value, torch.utils.data.Dataset):
            part = hashlib.sha256(name.encode())
            with contextlib.suppress(Unknown):
                add_content(value, part, depth + 1)
                into.update(part.digest())
                any_known = True
    if not any_known:
        raise Unknown


def length_of(dataset, sampler=None):
    """None where nothing but the dataset's own code knows, unless its sampler is PyTorch's and asks that itself."""
    data = torch.utils.data
    if type(dataset) in (list, tuple, range, dict):
        return len(dataset)
    if isinstance(dataset, torch.Tensor):
        return dataset.shape[0] if dataset.dim() else None
    if type(dataset) is data.TensorDataset:
        return length_of(field(dataset, "tensors")[0])
    if type(dataset) is data.Subset:
        return length_of(field(dataset, "indices"))
    if type(dataset) is data.ConcatDataset:
        return field(dataset, "cumulative_sizes")[-1]
    asks = isinstance(sampler, (data.DistributedSampler, data.RandomSampler, data.SequentialSampler))
    source = field(sampler, "dataset") if isinstance(sampler, data.DistributedSampler) else field(sampler, "data_source")
    return len(dataset) if asks and source is dataset else None


def draws_of(sampler, length):
    """How many indices a pass of a sampler of PyTorch draws; None of another one."""
    data, kind = torch.utils.data, type(sampler)
    if kind is data.SequentialSampler:
        return length
    if kind is data.RandomSampler:
        return length if field(sampler, "_num_samples") is None else field(sampler, "_num_samples")
    if kind in (data.DistributedSampler, data.WeightedRandomSampler):
        return field(sampler, "num_samples")
    return length_of(field(sampler, "indices")) if kind is data.SubsetRandomSampler else None


def leaves_of(batch, depth=0):
    """The tensors in containers of builtin types."""
    if isinstance(batch, torch.Tensor):
        return [batch]
    if isinstance(batch, collections.UserDict):
        batch = field(batch, "data")
    children = ()
    if type(batch) in (dict, collections.OrderedDict):
        children = batch.values()
    elif type(batch) is list or isinstance(batch, tuple):
        children = tuple.__iter__(batch) if isinstance(batch, tuple) else batch
    return [leaf for child in children for leaf in leaves_of(child, depth + 1)] if depth < 6 else []


def print_of(tensors):
    """16 digits of some elements of each tensor; None where there is none."""
    into = hashlib.blake2b(digest_size=8)
    for tensor in tensors:
        into.update(str(list(tensor.shape)).encode() + bytes_of(sample_of(plain_tensor(tensor), 512)))
    return into.hexdigest() if tensors else None


def prints_of_rows(tensors):
    """8 digits of each sample in a batch, by some elements of its tensors; none where these are not of as many."""
    blocks = [plain_tensor(t) for t in tensors if t.layout == torch.strided and t.dim()]
    if not blocks or len({t.shape[0] for t in blocks}) != 1 or not all(t.numel() for t in blocks):
        return []
    count = min(blocks[0].shape[0], 64)
    parts = []
    for flat in (t[:count].reshape(count, -1) for t in blocks):
        content = bytes_of(flat[:, ::-(-flat.shape[1] // 64)])
        parts.append([content[at:at + len(content) // count] for at in range(0, len(content), len(content) // count)])
    return [hashlib.blake2b(b"".join(each), digest_size=4).hexdigest() for each in zip(*parts)]
