"""Records what each rank of a data-parallel training in PyTorch does, for `lockstep judge`. The program stays as it is,

    torchrun --nproc-per-node 2 -m lockstep_recorder --record FOLDER train.py ARGUMENTS

or has two lines more,

    import lockstep_recorder
    lockstep_recorder.start()   # into the folder that LOCKSTEP_RECORD names; nothing where it names none

and `lockstep_recorder.watch(model)` where gradients are averaged without DistributedDataParallel.

Each rank writes one file, FOLDER/rank0.history, in the format of docs/protocol.md, section 5. A rank that is killed leaves
what it has written. Needs torch alone, and that only once it records. The program runs as it does without a recorder: what
cannot be recorded is a fact `not recorded` in the history, no object of the program is asked for anything that the program
does not ask for, and no random number is drawn.

For `lockstep judge FOLDER --against FOLDER`: LOCKSTEP_RECORD_VALUES=10 records values of parameters, gradients and buffers
in the first 10 steps, besides their digests. LOCKSTEP_RECORD_PERTURB=1 moves parameters and inputs of models by one unit in
the last place, up or down as drawn from this number, and records into FOLDER/perturbed-1.
"""
import array
import atexit
import collections
import contextlib
import ctypes
import functools
import hashlib
import importlib
import inspect
import itertools
import json
import math
import multiprocessing.process
import multiprocessing.util
import operator
import os
import platform
import runpy
import struct
import sys
import threading
import time
import types
import weakref

COMMIT = int.from_bytes(b"LOCKSTEP", "little")
BEGIN, MOMENT, OBSERVATION, ISSUED, DONE, ENDING, TENSORS, DIGESTS, FACT, SPAN, VALUES = 1, 2, 3, 4, 5, 8, 11, 12, 13, 14, 15
BYTES_MOST = 64 << 20  # Of a file; `judge` reads no larger one.
ENDING_BYTES = 32 << 10  # Kept free for the last record.
WHY_MOST = 4000  # Characters of an exception. A longer one keeps its end, where PyTorch writes what to do.
WAITING_MOST = 1 << 20  # Bytes that wait for a file whose rank is not known yet.
VALUES_BYTES = 3 << 19  # Of one list; of larger tensors some elements are recorded.
ELEMENTS_MOST, ELEMENTS_LEAST = 4096, 16  # Of a tensor, where not all are.
# What has more elements is digested in the first steps, and then in every seventh: no model of two or three is always passed over.
LARGE, OFTEN, SELDOM = 4 << 20, 8, 7
GOLDEN, FIRST, SECOND = (word - (1 << 64) for word in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
# Bytes that are hashed together, of a tensor that is hashed together with others, and of a part of a large one.
ROW, SMALL, CHUNK = 2048, 1 << 16, 1 << 18
NO_TENSOR = (0, -1.0)
encoded = json.JSONEncoder(separators=(",", ":"), allow_nan=False, ensure_ascii=False).encode
# PyTorch's functions, the tensor that a rank sends, and their names in a history.
COLLECTIVES = {"all_reduce": ("tensor", "allreduce"), "broadcast": ("tensor", "broadcast"), "reduce": ("tensor", "reduce"),
               "all_gather": ("tensor", "allgather"), "all_gather_into_tensor": ("input_tensor", "_allgather_base"),
               "gather": ("tensor", "gather"), "scatter": ("tensor", "scatter"),
               "reduce_scatter_tensor": ("input", "_reduce_scatter_base"), "barrier": (None, "barrier"),
               "all_to_all_single": ("input", "alltoall_base"), "send": ("tensor", "send"), "recv": ("tensor", "recv")}
RANK_VARIABLES = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK")
WORLD_VARIABLES = ("WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE")
# Autograd's nodes of functions that may average, and what they are the gradients of.
AVERAGES = {"NllLossBackward0": "nll_loss", "NllLoss2DBackward0": "nll_loss", "MseLossBackward0": "mse_loss",
            "SmoothL1LossBackward0": "smooth_l1_loss", "HuberLossBackward0": "huber_loss", "MeanBackward0": "mean",
            "BinaryCrossEntropyBackward0": "binary_cross_entropy",
            "BinaryCrossEntropyWithLogitsBackward0": "binary_cross_entropy_with_logits"}
MEAN, NODES_MOST = 1, 32  # PyTorch's number of that reduction; nodes among which an average is sought.
# What wrappers put between the names of modules.
WRAPPERS = ("_orig_mod.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module.")


class History:
    """One rank's file: records, each written whole before the next. They wait in memory until `open` names the rank."""

    def __init__(self, folder, **about):
        self.folder, self.about, self.path = folder, about, None
        self.count = self.bytes = 0
        self.waiting, self.waiting_bytes = [], 0
        self.process, self.lock, self.has_ended, self.is_failed = os.getpid(), threading.RLock(), False, False

    def open(self, rank, world):
        """Raises OSError where it cannot write there."""
        with self.lock:
            self.path = os.path.join(self.folder, "rank%d.history" % rank)
            try:
                os.makedirs(self.folder, mode=0o700, exist_ok=True)
                self.file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            except OSError as error:
                self.has_ended = True
                reason = "is there already; record into a new folder" if os.path.lexists(self.path) else error.strerror
                raise OSError("lockstep_recorder: %s: %s" % (self.path, reason)) from None
            waiting, self.waiting = self.waiting, []
            self.append(BEGIN, {"protocol": 1, "rank": rank, "world": world, **self.about})
            for record in waiting:
                self.append(*record)

    def append(self, kind, header, payload=b""):
        """Does nothing in a process that was forked from this one, nor after the ending."""
        if os.getpid() != self.process:
            return
        if self.path is None:
            self.waiting_bytes += 100 + len(payload)
            if self.waiting_bytes < WAITING_MOST or kind == TENSORS:
                self.waiting.append((kind, header, payload))
            return
        text = encoded(header).encode("utf-8", "replace")
        body = struct.pack("<IIQ", len(text), kind, len(payload)) + text + payload
        with self.lock:
            if self.has_ended:
                return
            record = body + bytes(-len(body) % 8) + struct.pack("<Q", COMMIT ^ self.count)
            if kind != ENDING and self.bytes + len(record) > BYTES_MOST - ENDING_BYTES:
                return self.end("overflowed", "a history has at most %d bytes" % BYTES_MOST)
            self.count, self.bytes, self.has_ended = self.count + 1, self.bytes + len(record), kind == ENDING
            try:
                while record:
                    record = record[os.write(self.file, record):]
            except OSError as error:
                self.has_ended = True
                print("lockstep_recorder: %s: %s; recording ends" % (self.path, error.strerror), file=sys.stderr)

    def end(self, kind, why=""):
        why = why if len(why) <= WHY_MOST else why[:WHY_MOST // 4] + " ... " + why[-WHY_MOST * 3 // 4:]
        if self.path is not None:
            self.append(ENDING, {"kind": kind, "why": why, "ns": time.monotonic_ns()})


# Digests

def mix(words):
    """Each word in place: docs/protocol.md, section 3. PyTorch shifts signed words in ones."""
    for shift, factor in ((30, FIRST), (27, SECOND), (31, None)):
        words ^= (words >> shift).bitwise_and_((1 << (64 - shift)) - 1)
        if factor:
            words *= factor
    return words


@functools.lru_cache(maxsize=None)
def keys(device):
    return mix(torch.arange(1, 1 + 2 * ROW // 8, device=device) * GOLDEN).bitwise_or_(1).split(ROW // 8)


def parts_of(data, most):
    """Rows of bytes in parts of at most so many, as words."""
    return data.view(torch.int64).view(-1, ROW // 8).split(most // ROW)


def hashes_of(parts):
    """Of the rows in each part, in order. CUDA has no matrix products of integers."""
    whole, half = keys(parts[0].device)
    if parts[0].device.type != "cpu":
        return torch.cat([(rows * whole).sum(1) + ((rows >> 32) * half).sum(1) for rows in parts])
    if not hasattr(here, "scratch"):  # Memory that is taken anew costs more than what is done in it.
        with torch.inference_mode(False):
            here.scratch = torch.empty(CHUNK // ROW, ROW // 8, dtype=torch.int64, device="cpu")
    scratch, of_words, of_halves = here.scratch, [], []
    for rows in parts:
        shifted = torch.bitwise_right_shift(rows, 32, out=scratch[:rows.shape[0]])
        of_words.append(torch.mv(rows, whole))
        of_halves.append(torch.mv(shifted, half))
    return torch.cat(of_words).add_(torch.cat(of_halves))


def bytes_in(tensor):
    """Those of a contiguous tensor, where words of 8 bytes can be read."""
    data = tensor.as_strided((tensor.numel(),), (1,)).view(torch.uint8)
    return data.clone() if data.storage_offset() % 8 else data


def summed(hashes, numbers, ends):
    """The sums over rows that lie together, up to each end. The first end is 0."""
    sums = mix(hashes.add_(numbers)).cumsum(0)
    sums = torch.cat([sums.new_zeros(1), sums])[ends]
    return sums[1:] - sums[:-1]


@functools.lru_cache(maxsize=64)
def layout_of(sizes, device):
    """Of tensors with so many bytes: zeros that fill the last row of each, and the numbers and ends of the rows that are hashed
    together: those of small tensors, and the last ones of large tensors."""
    with torch.inference_mode(False):
        zeros = torch.zeros(ROW, dtype=torch.uint8, device=device)
        last = [1 + size // ROW for size in sizes]
        numbers = [n for size, end in zip(sizes, last) for n in range(1 if size < SMALL else end, 1 + end)]
        ends = itertools.accumulate([0] + [end if size < SMALL else 1 for size, end in zip(sizes, last)])
        return ([zeros[size % ROW:] for size in sizes], torch.tensor(numbers, device=device) * GOLDEN,
                torch.tensor(list(ends), device=device))


def sums_of_hashes(tensors):
    """The digests of contiguous tensors on one device. The rows of large ones are hashed in parts, so that intermediate tensors
    stay small."""
    device, data = tensors[0].device, [bytes_in(t) for t in tensors]
    most = CHUNK if device.type == "cpu" else 1 << 25
    sizes = tuple([each.numel() for each in data])
    zeros, numbers, ends = layout_of(sizes, device)
    gathered, parts = [], []
    for each, size, fill in zip(data, sizes, zeros):
        if size >= SMALL:
            parts += parts_of(each[:size - size % ROW], most)
            each = each[size - size % ROW:]
        gathered += each, fill
    sums = summed(hashes_of(parts_of(torch.cat(gathered), most)), numbers, ends)
    if parts:
        counts = [size // ROW if size >= SMALL else 0 for size in sizes]
        numbers = torch.arange(1, 1 + max(counts), device=device) * GOLDEN
        ends = torch.tensor([0, *itertools.accumulate(counts)], device=device)
        sums += summed(hashes_of(parts), torch.cat([numbers[:count] for count in counts]), ends)
    return sums


def norms_of(tensors):
    """Euclidean, of contiguous tensors on one device, as one tensor."""
    by_dtype = {}
    for number, tensor in enumerate(tensors):
        by_dtype.setdefault(tensor.dtype, []).append(number)
    norms = []
    for dtype, numbers in by_dtype.items():
        same = [tensors[n] for n in numbers]
        if not dtype.is_floating_point and not dtype.is_complex:
            same = [t.double() for t in same]
        norms.append(torch.stack(torch._foreach_norm(same) if hasattr(torch, "_foreach_norm") and not dtype.is_complex else
                                 [torch.linalg.vector_norm(t) for t in same]))
    if len(norms) == 1:
        return norms[0]
    places = sorted(range(len(tensors)), key=list(itertools.chain(*by_dtype.values())).__getitem__)
    return torch.cat([each.double() for each in norms])[torch.tensor(places, device=tensors[0].device)]


def digests_of(tensors):
    """(digest, norm) of each plain tensor; NO_TENSOR for None. One transfer from each device for all."""
    result, by_device = [NO_TENSOR] * len(tensors), {}
    for number, tensor in enumerate(tensors):
        if tensor is not None:
            by_device.setdefault(tensor.device, []).append(number)
    with torch.no_grad():
        for numbers in by_device.values():
            flat = [(t if t.layout is torch.strided else t.to_dense()).contiguous() for t in (tensors[n] for n in numbers)]
            for number, pair in zip(numbers, zip(sums_of_hashes(flat).tolist(), norms_of(flat).tolist())):
                result[number] = pair
    return result


def is_dtensor(tensor):
    return isinstance(tensor, getattr(sys.modules.get("torch.distributed.tensor"), "DTensor", ()))


def plain_tensor(tensor):
    """What this rank holds of the tensor, as one that no subclass's code runs for. Throws where there is none."""
    if is_dtensor(tensor):
        if any(placement.is_partial() for placement in tensor.placements):
            raise TypeError("a DTensor of partial sums")
        tensor = tensor._local_tensor
    if type(tensor).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
        raise TypeError("a " + type(tensor).__name__)
    if tensor.device.type == "meta":
        raise TypeError("a tensor without data")
    return tensor.detach() if type(tensor) in (torch.Tensor, torch.nn.Parameter) else tensor.detach().as_subclass(torch.Tensor)


def bytes_of(tensor):
    tensor = tensor.detach().to_dense() if tensor.layout != torch.strided else tensor.detach()
    tensor = tensor.cpu().contiguous()
    return ctypes.string_at(tensor.data_ptr(), tensor.numel() * tensor.element_size()) if tensor.numel() else b""


def sample_of(tensor, most):
    """`most` elements of a larger tensor, one of each part of it, the same ones of each tensor of its size."""
    count = tensor.numel()
    if count <= most:
        return tensor
    tensor = tensor.detach().to_dense() if tensor.layout != torch.strided else tensor.detach()
    parts = torch.arange(most, device=tensor.device)
    places = parts * count // most + (parts * 0x9E3779B1 % (1 << 32) * (count // most) >> 32)
    return tensor.reshape(-1)[places] if tensor.is_contiguous() else tensor[torch.unravel_index(places, tensor.shape)]


def moved(tensor, generator):
    """Each element one unit in the last place up or down, as drawn; zeros stay. The place is that of the format in which the
    model computes, so that autocast's counts where it is on. Gradients flow through it."""
    if not torch.is_tensor(tensor) or not tensor.is_floating_point() or tensor.element_size() == 1:
        return tensor
    device = tensor.device.type
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else tensor.dtype
    with torch.no_grad():
        before = tensor.detach().to(dtype).contiguous()
        words = before.view({2: torch.int16, 4: torch.int32, 8: torch.int64}[before.element_size()])
        ups = torch.randint(0, 2, words.shape, generator=generator).mul_(2).sub_(1)
        after = (words + ups.to(words)).view(dtype)
        after = torch.where((before != 0) & after.isfinite(), after, before)
        step = after.to(tensor.dtype) - before.to(tensor.dtype)
    return tensor + step


# What is said of objects of the program, without running code of their classes

def field(thing, name, default=None):
    """An attribute that the object itself holds."""
    try:
        return object.__getattribute__(thing, "__dict__").get(name, default)
    except AttributeError:
        return default


def plain(value, depth=4):
    """A value of a fact as JSON: numbers that JSON lacks as text, a tensor of one element as its number."""
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


class Unknown(Exception):
    """An object whose content only its own code could tell."""


def add_content(value, into, depth=0):
    """Feeds a hash with a value that is made of builtin types, tensors and PyTorch's own datasets. Runs no code of others."""
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
    elif (kind.__module__, kind.__name__) == ("numpy", "ndarray") and value.dtype.hasobject is False:
        flat = value.reshape(-1)[::max(1, value.size // 512)]
        into.update(("%s %s" % (value.dtype, value.shape)).encode() + flat.tobytes())
    elif isinstance(value, data.TensorDataset):
        add_content(list(field(value, "tensors")), into, depth + 1)
    elif isinstance(value, data.Subset):
        add_content([field(value, "dataset"), field(value, "indices")], into, depth + 1)
    elif isinstance(value, data.ConcatDataset):
        add_content(list(field(value, "datasets")), into, depth + 1)
    else:
        raise Unknown


def fingerprint_of(dataset):
    """16 digits that are the same for datasets of the same content; None where only the dataset's own code could tell."""
    into = hashlib.sha256()
    try:
        add_content(dataset, into)
    except Unknown:
        return None
    return into.hexdigest()[:16]


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


def indices_in(drawn):
    """The numbers of the samples; None where a loader draws something else."""
    is_array = isinstance(drawn, torch.Tensor) or (type(drawn).__module__, type(drawn).__name__) == ("numpy", "ndarray")
    try:
        if is_array and drawn.ndim or type(drawn) in (list, tuple, range):
            return [operator.index(each) for each in drawn]
        return [operator.index(drawn)]
    except TypeError:
        return None


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


def averages_of(loss):
    """(function, over how many terms) of the averages that a loss is made of, by the first nodes of its graph."""
    found, nodes = [], collections.deque([loss.grad_fn] if type(loss) is torch.Tensor else [])
    for _ in range(NODES_MOST):
        node = nodes.popleft() if nodes else None
        if node is None:
            continue
        name = type(node).__name__
        terms = terms_of(node, name) if name in AVERAGES else None
        if terms is not None and terms > 1:
            found.append((AVERAGES[name], terms))
        elif name not in AVERAGES or terms == 1:
            nodes.extend(after for after, _ in node.next_functions)
    return found


def terms_of(node, name):
    """None where a node does not average, or where only the program's hooks, or a device, could tell over how much."""
    if name == "MeanBackward0":
        return node._saved_self_sym_numel
    saved = node._raw_saved_target
    if node._saved_reduction != MEAN or getattr(saved, "unpack_hook", True) is not None:
        return None
    if not hasattr(node, "_saved_ignore_index"):
        return saved.data.numel()
    target, ignored = plain_tensor(saved.data), node._saved_ignore_index
    return (target != ignored - (ignored >> 63 << 64)).sum().item() if target.device.type == "cpu" else None


# Hooks

here = threading.local()  # `is_busy`: the recorder itself runs in this thread. And how deep the thread is in what nests.
everywhere = types.SimpleNamespace()  # The same of a backward, parts of which run in other threads.
recorder = None  # The one of this process, once it records.
is_compiling = bool  # PyTorch's, once it is loaded: true where Dynamo reads a function in place of running it.
set_eval_frame = print  # Dynamo's, once PyTorch is loaded: says what compiles functions from here on, and returns what did before.


def disable_modes():
    """PyTorch's modes, such as one that counts operations, see nothing of what runs in it."""
    stack = contextlib.ExitStack()
    if torch._C._len_torch_dispatch_stack():
        stack.enter_context(torch.utils._python_dispatch._disable_current_modes())
    if torch._C._len_torch_function_stack():
        stack.enter_context(torch._C.DisableTorchFunction())
    return stack


def quietly(what, act, *args):
    """Runs a part of the recorder. What it throws is a fact of the history and not the program's."""
    if getattr(here, "is_busy", False):
        return None
    callback = set_eval_frame(None)
    here.is_busy = True
    try:
        with disable_modes():
            return act(*args)
    except Exception as error:
        recorder.omit(what, error)
        return None
    finally:
        here.is_busy = False
        if callback is not None:
            set_eval_frame(callback)


def resume(watching, result, error):
    with contextlib.suppress(StopIteration):
        watching.send((result, error))


def hooked(original, around, what):
    """A function that runs `original`, and `around` beside it: a generator, which runs up to its `yield` before that, and then is
    sent what `original` returned and what it threw. Where it runs within itself, the outermost alone is recorded."""
    depths = everywhere if what == "backward" else here

    @functools.wraps(original)
    def function(*args, **kwargs):
        if is_compiling() or not recorder.is_on() or getattr(depths, what, False):
            return original(*args, **kwargs)
        watching = quietly(what, functools.partial(around, *args, **kwargs))
        if watching is None:
            return original(*args, **kwargs)
        quietly(what, next, watching, None)
        setattr(depths, what, True)
        try:
            result = original(*args, **kwargs)
        except BaseException as error:
            setattr(depths, what, False)
            quietly(what, resume, watching, None, error)
            raise
        setattr(depths, what, False)
        quietly(what, resume, watching, result, None)
        return result
    return function


def put(owner, name, around, what=None):
    """Puts `hooked` in the place of a function that this release of PyTorch may lack."""
    original = getattr(owner, name, None)
    if original is None:
        recorder.omit(what or name, "this PyTorch has no " + name)
    else:
        setattr(owner, name, hooked(original, around, what or name))


# What is recorded

class Recorder:
    """The records of this process: its moments, facts, spans and lists of tensors."""

    def __init__(self, history, given):
        self.history, self.given, self.step, self.moment = history, given, 0, None
        _, _, self.values_steps, perturbed = given
        self.generator = torch.Generator().manual_seed(perturbed) if perturbed else None
        self.lists, self.omitted, self.exit_code = {}, set(), None
        self.collectives, self.loaders, self.training = Collectives(self), Loaders(self), Training(self)
        self.is_known_to_dynamo = False

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
        held = []
        for name, tensor in named:
            try:
                held.append((name, None if tensor is None else plain_tensor(tensor)))
            except TypeError as error:
                self.omit("%s of %s" % (role, owner), error)
        known = tuple((name, "", ()) if t is None else (name, dtype_name(t.dtype), tuple(t.shape)) for name, t in held)
        key = owner, role, known
        payload = b"".join(struct.pack("<qd", *pair) for pair in digests_of([tensor for _, tensor in held]))
        if key not in self.lists:
            self.lists[key] = len(self.lists)
            self.history.append(TENSORS, {"list": self.lists[key], "of": owner, "role": role, "tensors": known})
        self.history.append(DIGESTS, {"list": self.lists[key]}, payload)
        if self.step < self.values_steps and role in ("parameters", "gradients", "buffers", "taken") and held:
            self.values(self.lists[key], [tensor for _, tensor in held if tensor is not None])

    def is_due(self, named):
        """Whether what belongs to these is digested in this step. Replicas that part stay apart: it shows some steps later too."""
        is_large = sum(t.numel() for _, t in named if t is not None) > LARGE
        return not is_large or self.step < max(OFTEN, self.values_steps) or self.step % SELDOM == 0

    def values(self, number, tensors):
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
        self.history.append(VALUES, {"list": number} if is_whole else {"list": number, "elements": most}, payload)


@functools.lru_cache(maxsize=None)
def dtype_name(dtype):
    return str(dtype).replace("torch.", "")


class Collectives:
    """What the program sends through `torch.distributed`, in order."""

    def __init__(self, record):
        self.record, self.sequences, self.pending = record, {}, weakref.WeakKeyDictionary()

    def issue(self, op, group="world", dtype="", elements=0, root=-1):
        sequence = self.sequences[group] = self.sequences.get(group, -1) + 1
        append = self.record.history.append
        append(ISSUED, {"op": op, "group": group, "dtype": dtype, "sequence": sequence, "elements": elements, "root": root,
                        "ns": time.monotonic_ns()})
        once = iter([True])  # A future and a wait may both say so.
        return lambda: next(once, False) and append(DONE, {"group": group, "sequence": sequence, "ns": time.monotonic_ns()})

    def collective(self, names, tensor, op, /, *args, **kwargs):
        given = {**dict(zip(names, args)), **kwargs}
        sent, root = given.get(tensor), given.get("src", given.get("dst"))
        group, distributed = given.get("group"), torch.distributed
        members = distributed.get_process_group_ranks(group) if group is not None else []
        if members and distributed.get_rank() not in members:
            return
        name = "world" if len(members) in (0, distributed.get_world_size()) else "ranks " + ",".join(map(str, members))
        has_tensor = isinstance(sent, torch.Tensor)
        self.record.fact("call", at=call_site())
        done = self.issue(op, name, dtype_name(sent.dtype) if has_tensor else "elements", sent.numel() if has_tensor else 0,
                          root if type(root) is int else -1)
        result, error = yield
        if error is not None:
            return
        if not given.get("async_op"):
            done()
        elif result is not None:
            self.pending[result] = done
            with contextlib.suppress(RuntimeError):  # A backend without futures: it is done when the program has waited for it.
                result.get_future().then(lambda _: done())

    def wait(self, work, /, *args, **kwargs):
        _, error = yield
        if error is None:
            self.pending.pop(work, lambda: None)()

    def made(self, /, *args, **kwargs):
        _, error = yield
        if error is None:
            distributed = torch.distributed
            rank, world = distributed.get_rank(), distributed.get_world_size()
            self.record.open(rank, world)
            self.record.fact("process group", rank=rank, world=world, backend=distributed.get_backend())


def call_site():
    """The innermost frame that is neither PyTorch's nor the recorder's."""
    frame, torch_folder = sys._getframe(1), os.path.dirname(torch.__file__) + os.sep
    while frame.f_back and (frame.f_code.co_filename.startswith(torch_folder) or frame.f_code.co_filename == __file__ or
                            frame.f_globals.get("__name__") in ("contextlib", "functools")):
        frame = frame.f_back
    return "%s:%d in %s" % (os.path.basename(frame.f_code.co_filename), frame.f_lineno, frame.f_code.co_name)


class Pass:
    """An iterator's way through its loader: batches of indices that it drew and has not handed to the program yet."""

    def __init__(self, name):
        self.name, self.drawn = name, collections.deque()


class Loaders:
    """Which samples the program gets."""

    def __init__(self, record):
        self.record, self.passes, self.epochs = record, weakref.WeakKeyDictionary(), {}
        self.names, self.datasets, self.samplers, self.bare = (Names(kind) for kind in ("loader", "dataset", "object", "sampler"))

    def begin(self, name, dataset, sampler, batch_size, drops_batch, **more):
        self.record.at("data")
        self.epochs[name] = self.epochs.get(name, -1) + 1
        shard = {"replicas": field(sampler, "num_replicas"), "rank": field(sampler, "rank"),
                 "shuffle": field(sampler, "shuffle"), "seed": field(sampler, "seed"), "sampler_epoch": field(sampler, "epoch"),
                 "drops": field(sampler, "drop_last")} if field(sampler, "num_replicas") is not None else {}
        length = length_of(dataset, sampler)
        draws = draws_of(sampler, length)
        batches = None if not draws or not batch_size else draws // batch_size if drops_batch else -(-draws // batch_size)
        try:
            fingerprint = fingerprint_of(dataset)
        except Exception as error:
            self.record.omit("a fingerprint of a dataset", error)
            fingerprint = None
        self.record.fact(name, epoch=self.epochs[name], length=length, sampler=type(sampler).__name__, batch_size=batch_size,
                         drops_batch=drops_batch is True, batches=batches, dataset=type(dataset).__name__,
                         of=self.datasets.of(dataset), sampler_of=self.samplers.of(sampler), fingerprint=fingerprint, **shard, **more)

    def begin_loader(self, iterator, loader):
        if getattr(here, "batch", False):  # A dataset's own loader.
            return
        name = self.names.of(loader)
        self.passes[iterator] = Pass(name)
        batches = field(loader, "batch_sampler")
        sampler = field(loader, "sampler") if batches is None else field(batches, "sampler")
        self.begin(name, field(loader, "dataset"), sampler, field(loader if batches is None else batches, "batch_size"),
                   field(batches, "drop_last"), workers=field(loader, "num_workers"),
                   iterable=isinstance(field(loader, "dataset"), torch.utils.data.IterableDataset))

    def make_iterator(self, iterator, loader, /, *args, **kwargs):
        self.begin_loader(iterator, loader)
        yield

    def reset(self, iterator, loader, first_iter=False):
        if not first_iter:  # Of workers that persist.
            self.begin_loader(iterator, loader)
        yield

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
        indices = is_at.drawn.popleft() if is_at.drawn and not isinstance(error, StopIteration) else None
        if isinstance(error, StopIteration):
            self.record.fact(is_at.name + " exhausted")
        elif error is None:
            self.observe(is_at.name, indices)
            tensors = leaves_of(result)
            is_rowed = indices and tensors and all(t.dim() and t.shape[0] == len(indices) for t in tensors)
            self.record.fact("batch", loader=is_at.name, print=print_of(tensors),
                             row=[indices[0], print_of([t[0] for t in tensors])] if is_rowed else None)

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


class Model:
    """A model that the program wrapped, or that is watched. `kind` says how its gradients leave the next backward, by its last
    forward: "synchronised" or "no_sync"; None: there was no forward."""

    def __init__(self, name, wrapper, module, wrapped_by):
        self.name, self.wrapper, self.module, self.wrapped_by = name, weakref.ref(wrapper), weakref.ref(module), wrapped_by
        self.kind, self.forwards, self.forwards_of_step, self.depth = None, 0, 0, 0
        self.buffers_came = self.is_training = self.is_moved = self.has_backward = False
        self.recorded = None  # The parameters and their versions when they were recorded last.
        self.listed, self.shards_recorded = None, []
        self.seen = self.taken = None  # Marks of gradients: as they were recorded last, and after the update that took them.

    def named(self, members):
        ignored = field(self.wrapper(), "parameters_to_ignore") or ()
        return [(clean(name), tensor) for name, tensor in members(self.module()) if name not in ignored]

    def all_parameters(self):
        """Those that the module had when the part of the step began that is recorded."""
        if self.listed is None:
            self.listed = self.named(torch.nn.Module.named_parameters)
        return self.listed

    def parameters(self):
        return [(name, p) for name, p in self.all_parameters() if p.requires_grad]

    def buffers(self):
        return self.named(torch.nn.Module.named_buffers)

    def gradients(self):
        return [(name, p.grad if p.is_leaf else None) for name, p in self.parameters()]

    def marked(self):
        """Tensors that tell whether gradients have changed."""
        return self.gradients()

    def owned(self):
        """{id of a parameter: (model, name, whether it is frozen)}"""
        return {id(p): (self, name, not p.requires_grad) for name, p in self.all_parameters()}

    def shards(self):
        """What this rank holds of tensors that the ranks have parts of: [name, whole shape, where it begins, whether in the
        flattened whole]."""
        offsets = getattr(sys.modules.get("torch.distributed.tensor._utils"), "compute_local_shape_and_global_offset", None)
        return [[name, list(p.shape), list(offsets(p.shape, p.device_mesh, p.placements)[1]), False]
                for name, p in self.parameters() if is_dtensor(p)]


class FlatModel(Model):
    """One in FullyShardedDataParallel, which makes one flat parameter of those of a unit. Named as the program named them."""

    def units(self):
        """(prefix of names, flat parameter, its gradient) of each."""
        for prefix, module in torch.nn.Module.named_modules(self.module()):
            handle = field(module, "_handle")
            if handle is not None:
                gradient = handle.flat_param.grad if handle.sharded_grad is None else handle.sharded_grad
                yield clean(prefix + "." if prefix else ""), handle.flat_param, gradient

    def parts(self, tensor_of):
        named = []
        for prefix, flat, gradient in self.units():
            tensor = tensor_of(flat, gradient)
            for name, info in zip(flat._fqns, flat._shard_param_infos):
                begin = info.offset_in_shard if info.in_shard else 0
                is_there = tensor is not None
                named.append((prefix + clean(name), tensor[begin:begin + (info.numel_in_shard or 0)] if is_there else None))
        return named

    def parameters(self):
        return self.parts(lambda flat, _: flat._local_shard.detach())

    def gradients(self):
        return self.parts(lambda _, gradient: gradient)

    def marked(self):
        return [("", gradient) for _, _, gradient in self.units()]

    def owned(self):
        return {id(flat): (self, prefix + "_flat_param", False) for prefix, flat, _ in self.units()}

    def shards(self):
        return [[prefix + clean(name), list(shape), [info.intra_param_start_idx or 0], True] for prefix, flat, _ in self.units()
                for name, shape, info in zip(flat._fqns, flat._shapes, flat._shard_param_infos)]


def clean(name):
    for each in WRAPPERS:
        name = name.replace(each, "")
    return name


def sent(named):
    """What a collective of the wrapper sends, in all."""
    tensors = [tensor for _, tensor in named]
    return {"dtype": dtype_name(tensors[0].dtype) if tensors else "", "elements": sum(t.numel() for t in tensors)}


class Marks:
    """Which tensors a list holds and what they hold, so far as can be told without reading all of it."""

    def __init__(self, named):
        tensors = [tensor for _, tensor in named]
        self.references = [None if t is None else weakref.ref(t) for t in tensors]
        self.versions = [None if t is None else version_of(t) for t in tensors]

    def are_of(self, named):
        return len(named) == len(self.references) and all(
            (reference is None) if t is None else reference is not None and reference() is t and version == version_of(t)
            for (_, t), reference, version in zip(named, self.references, self.versions))


def version_of(tensor):
    try:
        return tensor._version
    except RuntimeError:  # Of a tensor that inference made.
        return None


def touch(named):
    """Some elements of each tensor: what writes to `p.grad.data`, or a collective, leaves versions as they are."""
    tensors = [plain_tensor(t).reshape(-1)[:8] for _, t in named if t is not None and t.layout == torch.strided and t.is_contiguous()]
    by_kind = {}
    for each in tensors:
        by_kind.setdefault((each.device, each.dtype), []).append(each)
    return b"".join(bytes_of(torch.cat(each)) for each in by_kind.values())


class Training:
    """Models, their forwards and backwards, and the optimizers' updates."""

    def __init__(self, record):
        self.record, self.models, self.count, self.joins = record, [], 0, 0
        self.stepping, self.update_began = None, 0
        self.names, self.updates = Names("optimizer"), collections.Counter()  # Updates of each.
        self.sharded = []

    def look_again(self):
        """Another part of a step begins, by which models may have other parameters."""
        for model in self.live_models():
            model.listed = None

    def live_models(self):
        self.models = [model for model in self.models if model.wrapper() is not None and model.module() is not None]
        return self.models

    def model_of(self, wrapper):
        return next((model for model in self.live_models() if model.wrapper() is wrapper), None)

    def record_parameters(self, model, is_certain=False, is_update=False):
        """Recorded where they may have changed since they were last."""
        parameters = model.parameters()
        if is_certain or model.recorded is None or not model.recorded.are_of(parameters):
            model.recorded = Marks(parameters)
            if not is_update or self.record.is_due(parameters):
                self.record_parts(model, "parameters", parameters)

    def record_parts(self, model, role, named):
        shards = model.shards()
        if shards != model.shards_recorded:
            model.shards_recorded = shards
            self.record.fact("shards", of=model.name, tensors=shards)
        self.record.digests(model.name, role, named)

    def add(self, wrapper, module, wrapped_by, **about):
        model = (FlatModel if wrapped_by == "FullyShardedDataParallel" else Model)("model %d" % self.count, wrapper, module, wrapped_by)
        self.count += 1
        self.models.append(model)
        modules = list(torch.nn.Module.modules(module))
        drops = sum(isinstance(m, torch.nn.modules.dropout._DropoutNd) and m.p > 0 or
                    type(field(m, "dropout")) is float and field(m, "dropout") > 0 for m in modules)
        norms = sum(isinstance(m, torch.nn.modules.batchnorm._BatchNorm) and not isinstance(m, torch.nn.SyncBatchNorm) for m in modules)
        frozen = [name for name, p in model.all_parameters() if not p.requires_grad]
        names = collections.defaultdict(list)
        for name, p in torch.nn.Module.named_parameters(module, remove_duplicate=False):
            names[id(p)].append(clean(name))
        self.record.at("construction")
        self.record.fact(model.name, kind=type(module).__name__, wrapper=wrapped_by, dropouts=drops, batch_norms=norms,
                         parameters=len(model.parameters()), frozen=frozen[:1000],
                         tied=[each for each in names.values() if len(each) > 1][:100], **about)
        self.record_parameters(model)
        return model

    def wrap(self, ddp, /, *args, **kwargs):
        module = args[0] if args else kwargs["module"]
        self.record.at("construction")
        done = self.record.collectives.issue("ddp_construction", dtype="parameters",
                                             elements=sum(1 for _ in torch.nn.Module.parameters(module)))
        _, error = yield
        if error is None:
            done()
            self.add(ddp, module, "DistributedDataParallel", broadcast_buffers=ddp.broadcast_buffers,
                     find_unused_parameters=ddp.find_unused_parameters, static_graph=field(ddp, "static_graph"),
                     ignored=sorted(map(str, field(ddp, "parameters_to_ignore") or ()))[:1000])

    def watch(self, module):
        if self.model_of(module) is None:
            model = self.add(module, module, "watched")
            if self.record.generator:
                self.move(model)

    def move(self, model):
        """The model, before its first forward."""
        if not model.is_moved:
            with torch.no_grad():
                for _, parameter in model.parameters():
                    parameter.copy_(moved(parameter, self.record.generator))
        model.is_moved = True

    def moved_inputs(self, ddp, inputs):
        model = self.model_of(ddp)
        if model is None:
            return inputs
        self.move(model)
        return torch.utils._pytree.tree_map(lambda value: moved(value, self.record.generator), inputs)

    def prepare_forward(self, ddp, /, *args, **kwargs):
        if self.model_of(ddp) is not None:
            self.record.at("forward")
        yield

    def send_buffers(self, ddp):
        model = self.model_of(ddp)
        if model is None:
            return
        done = self.record.collectives.issue("ddp_buffers", **sent(model.buffers()))
        _, error = yield
        if error is None:
            done()
            model.buffers_came = True

    def begin_forward(self, ddp):
        model = self.model_of(ddp)
        if model is None:
            return
        model.depth += 1
        if model.depth > 1:
            return
        self.record.at("forward")
        model.listed = None
        if torch.is_grad_enabled():
            model.kind = "synchronised" if ddp.require_backward_grad_sync else "no_sync"
            model.forwards, model.forwards_of_step = model.forwards + 1, model.forwards_of_step + 1
        if model.buffers_came:
            model.buffers_came = False
            if self.record.is_due(model.parameters()):
                self.record.digests(model.name, "buffers", model.buffers())
        module = model.module()
        model.is_training = module.training
        if module.training and torch.is_grad_enabled():
            self.record_parameters(model)
            device = next((p.device for p in torch.nn.Module.parameters(module)), torch.device("cpu"))
            state = torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.get_rng_state()
            self.record.digests(model.name, "random", [("generator", state)])

    def end_forward(self, ddp, began):
        model = self.model_of(ddp)
        if model is not None:
            model.depth -= 1
            self.record.span("forward", began)

    def backward(self, tensors=None, *args, **kwargs):
        self.look_again()
        models = {model: self.before_backward(model) for model in self.models}
        self.record.at("backward")
        for loss in tensors if type(tensors) in (list, tuple) else [tensors]:
            for function, terms in averages_of(loss):
                self.record.fact("terms", function=function, terms=terms)
        done = [self.record.collectives.issue("ddp_backward", **sent(model.parameters())) for model in models
                if model.kind == "synchronised" and model.wrapped_by == "DistributedDataParallel"]
        began = time.monotonic_ns()
        _, error = yield
        self.record.span("backward", began)
        if error is not None:
            return
        for each in done:
            each()
        self.look_again()
        self.adopt()
        self.record.at("backward")
        for model in self.live_models():
            marks, about = models.get(model, (None, {}))
            if marks is None or not marks.are_of(model.marked()):
                self.end_backward(model, tensors, about)

    def before_backward(self, model):
        """Marks of its gradients, and how they differ from what was recorded of them last."""
        gradients = model.marked()
        about = {}
        if model.taken is not None:
            about["kept"] = model.taken.are_of(gradients) and any(t is not None for _, t in gradients)
        if model.has_backward and not model.seen[0].are_of(gradients):
            about["changed"] = any(touch(gradients))  # and not cleared
        return Marks(gradients), about

    def end_backward(self, model, loss, about):
        module, gradients = model.module(), model.gradients()
        outside = {"DistributedDataParallel": "bare", "watched": "by hand"}.get(model.wrapped_by, "synchronised")
        kind = model.kind or ("again" if model.forwards_of_step else outside)
        is_local = field(module, "_sync_gradients") is False  # FullyShardedDataParallel's, in no_sync.
        training = model.is_training if model.forwards else field(module, "training")
        self.record.fact("backward", model=model.name, kind="no_sync" if is_local else kind, loss=loss, training=training,
                         forwards=model.forwards, **about)
        if not is_local:
            is_due = self.record.is_due(gradients)
            if is_due:
                self.record_parts(model, "gradients", gradients)
            model.seen, model.has_backward = (Marks(model.marked()), touch(gradients) if is_due else None), True
        model.kind, model.forwards, model.taken = None, 0, None

    def shard(self, module, /, *args, **kwargs):
        """A module whose parameters the ranks have parts of from here on. Which one is the model's root is not known yet."""
        result, error = yield
        if error is None:
            name = type(module).__name__ if hasattr(type(module), "fsdp_modules") else "fully_shard"
            self.sharded += [(weakref.ref(each), name) for each in (module if type(module) in (list, tuple) else [module])]

    def adopt(self):
        """Makes models of the roots among sharded modules."""
        if not self.sharded:
            return
        sharded, self.sharded = [(reference(), name) for reference, name in self.sharded], []
        inner = [model.module() for model in self.live_models()] + [module for module, _ in sharded if module is not None]
        known = {id(each) for module in inner for each in torch.nn.Module.modules(module) if each is not module}
        known.update(id(model.module()) for model in self.models)
        for module, name in sharded:
            if module is not None and id(module) not in known:
                known.add(id(module))
                self.add(module, module, name)

    def is_stepping(self):
        """Whether the step of an optimizer runs around this one. One that threw does not."""
        if self.stepping is None:
            return False
        frame = sys._getframe(1)
        while frame is not None:
            if frame.f_code.co_name == "wrapper" and frame.f_locals.get("self") is self.stepping:
                return True
            frame = frame.f_back
        return False

    def owners(self):
        owners = {}
        for model in self.live_models():
            owners.update(model.owned())
        return owners

    def begin_update(self, optimizer, args, kwargs):
        if self.stepping is not optimizer and self.is_stepping():
            return
        if multiprocessing.process.parent_process() is None:  # Another one is a helper until it makes a process group.
            self.record.open(0, 1)
        self.stepping, self.update_began = optimizer, time.monotonic_ns()
        self.look_again()
        self.adopt()
        name = self.names.of(optimizer)
        strangers = self.strangers(optimizer, self.owners())
        if strangers and not self.updates[name]:
            self.record.at("construction")
            self.record.digests(name, "parameters", strangers)
        if not args[1:] and not kwargs.get("closure"):
            self.take(optimizer, strangers)

    def strangers(self, optimizer, owners):
        places = [p for group in optimizer.param_groups for p in group["params"]]
        return [("parameter %d" % number, p) for number, p in enumerate(places)
                if p.requires_grad and id(p) not in owners and not is_divided(p)]

    def take(self, optimizer, strangers):
        """Gradients as the update takes them, where they are not those of the last backward."""
        self.record.at("update")
        if strangers:
            self.record.digests(self.names.of(optimizer), "gradients", [(name, p.grad if p.is_leaf else None) for name, p in strangers])
        own = {id(p) for group in optimizer.param_groups for p in group["params"]}
        for model in self.live_models():
            gradients = model.gradients()
            is_own = not own.isdisjoint(model.owned())
            is_seen = model.seen is not None and model.seen[0].are_of(model.marked()) and \
                (model.seen[1] is None or model.seen[1] == touch(gradients))
            if is_own and any(t is not None for _, t in gradients) and (not is_seen or model.wrapped_by == "watched"):
                self.record_parts(model, "taken", gradients)

    def end_update(self, optimizer, args, kwargs):
        if optimizer is not self.stepping:  # The one that another has within it.
            return
        self.look_again()
        self.stepping, name, owners = None, self.names.of(optimizer), self.owners()
        places = [p for group in optimizer.param_groups for p in group["params"]]
        own, strangers = [owners[id(p)] for p in places if id(p) in owners], self.strangers(optimizer, owners)
        if args[1:] or kwargs.get("closure"):
            self.take(optimizer, strangers)
        self.record.at("update")
        self.record.span("update", self.update_began)
        groups = [{key: value for key, value in group.items() if key != "params"} for group in optimizer.param_groups]
        self.record.fact(name, kind=type(optimizer).__name__, groups=groups, foreign=len(strangers),
                         owned=[[model.name, name] for model, name, is_frozen in own if not is_frozen],
                         frozen=sum(is_frozen for _, _, is_frozen in own), divided=sum(map(is_divided, places)))
        state = self.state(optimizer, places, owners)
        if self.record.is_due(state):
            self.record.digests(name, "state", state)
        self.updates[name] += 1
        if strangers:
            self.record.digests(name, "parameters", strangers)
        owning = {model for model, _, _ in own}
        for model in self.models:
            self.record_parameters(model, model in owning, is_update=True)
            if model in owning:
                model.taken, model.forwards_of_step, model.has_backward = Marks(model.marked()), 0, False
        self.record.step += 1

    def state(self, optimizer, places, owners):
        def name_of(number, p):
            owner = owners.get(id(p))
            return "%s %s" % (owner[0].name, owner[1]) if owner else "parameter %d" % number
        states = [optimizer.state.get(p) for p in places]  # None where another rank has it
        return [("%s %s" % (name_of(number, places[number]), key), value) for number, state in enumerate(states)
                for key, value in (state.items() if isinstance(state, dict) else ()) if isinstance(value, torch.Tensor)]

    def scale(self, scaler, optimizer, /, *args, **kwargs):
        name = self.names.of(optimizer)
        before = self.updates[name]
        _, error = yield
        if error is None and self.updates[name] == before:
            self.record.at("update")
            self.record.fact("skipped", optimizer=name, by=type(scaler).__name__)

    def join(self, join):
        if join._enable:
            self.record.at("join")
            self.record.fact("join %d" % self.joins)
        yield

    def exhausted(self, join, error, *about):
        """This rank has no more inputs: from here on it shadows its peers, and holds the last one's parameters at the end."""
        if not join._enable or error:
            return
        self.record.at("join")
        _, failed = yield
        if failed is None:
            self.record.at("joined")
            self.record.fact("join %d ended" % self.joins)
            self.joins += 1
            for model in self.live_models():
                self.record_parameters(model, True)


def is_divided(tensor):
    """Whether the ranks hold parts of it, as those of FullyShardedDataParallel and DTensor do."""
    return is_dtensor(tensor) or hasattr(tensor, "_is_flat_param")


class Forward:
    """In the place of the context in which DistributedDataParallel runs its module, once its buffers have come."""

    def __init__(self, context, ddp):
        self.context, self.ddp, self.began = context, ddp, time.monotonic_ns()

    def __enter__(self):
        quietly("forward", recorder.training.begin_forward, self.ddp)
        return self.context.__enter__()

    def __exit__(self, *error):
        quietly("forward", recorder.training.end_forward, self.ddp, self.began)
        return self.context.__exit__(*error)


def forward_in(original):
    @functools.wraps(original)
    def function(ddp):
        return original(ddp) if is_compiling() or not recorder.is_on() else Forward(original(ddp), ddp)
    return function


def moving(original):
    @functools.wraps(original)
    def function(ddp, *args, **kwargs):
        inputs = original(ddp, *args, **kwargs)
        return quietly("moved inputs", recorder.training.moved_inputs, ddp, inputs) or inputs
    return function


def before_step(optimizer, args, kwargs):
    if not is_compiling() and recorder.is_on():
        quietly("update", recorder.training.begin_update, optimizer, args, kwargs)


def after_step(optimizer, args, kwargs):
    if not is_compiling() and recorder.is_on():
        quietly("update", recorder.training.end_update, optimizer, args, kwargs)


# Dynamo compiles none of these, only what they call for the program.
CODES = [code for each in (hooked, forward_in, moving) for code in each.__code__.co_consts if isinstance(code, types.CodeType)]
CODES += [each.__code__ for each in (quietly, before_step, after_step, Forward.__init__, Forward.__enter__, Forward.__exit__)]


def install():
    """Puts hooks into PyTorch, once in a process. Each asks for the recorder of the process that it runs in."""
    def part(name, method):
        return lambda *args, **kwargs: getattr(getattr(recorder, name), method)(*args, **kwargs)

    training, loaders = functools.partial(part, "training"), functools.partial(part, "loaders")
    parallel, iterator = torch.nn.parallel.DistributedDataParallel, torch.utils.data.dataloader._BaseDataLoaderIter
    join, distributed = torch.distributed.algorithms.join.Join, torch.distributed.distributed_c10d
    put(parallel, "__init__", training("wrap"), "construction")
    put(parallel, "_pre_forward", training("prepare_forward"), "inputs of a forward")
    put(parallel, "_sync_buffers", training("send_buffers"), "buffers")
    if hasattr(parallel, "_inside_ddp_forward"):
        parallel._inside_ddp_forward = forward_in(parallel._inside_ddp_forward)
    if recorder.generator:
        parallel._pre_forward = moving(parallel._pre_forward)
    put(join, "__enter__", training("join"), "join")
    put(join, "__exit__", training("exhausted"), "end of a join")
    put(iterator, "__init__", loaders("make_iterator"), "draw")
    put(iterator, "_reset", loaders("reset"), "draw")
    put(iterator, "_next_index", loaders("draw"), "draw")
    put(iterator, "__next__", loaders("hand"), "batch")
    put(torch.utils.data.DistributedSampler, "__iter__", loaders("deal"), "sampler")
    put(torch.distributed.Work, "wait", part("collectives", "wait"), "wait")
    scaler = getattr(sys.modules.get("torch.amp.grad_scaler"), "GradScaler", None)
    if scaler:
        put(scaler, "step", training("scale"), "scaler")
    from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
    register_optimizer_step_pre_hook(before_step)
    register_optimizer_step_post_hook(after_step)

    with contextlib.suppress(ImportError):
        importlib.import_module("torch.distributed.fsdp")  # The first optimizer would load it.
        put(torch.distributed.fsdp.FullyShardedDataParallel, "__init__", training("shard"), "construction")
    replaced = {}

    def put_function(owners, name, around, what):
        original = getattr(owners[0], name, None)
        if original is not None:
            replaced[id(original)] = hooked(original, around, what)
            for owner in owners:
                setattr(owner, name, replaced[id(original)])
    put_function([torch.autograd], "backward", training("backward"), "backward")
    for package, name in (("torch.distributed.fsdp", "fully_shard"), ("torch.distributed.tensor.parallel", "parallelize_module")):
        if package in sys.modules:
            put_function([sys.modules[package]], name, training("shard"), "construction")
    put_function([distributed, torch.distributed], "init_process_group", part("collectives", "made"), "process group")
    for name, (tensor, op) in COLLECTIVES.items():
        if hasattr(distributed, name):
            names = list(inspect.signature(getattr(distributed, name)).parameters)
            around = functools.partial(part("collectives", "collective"), names, tensor, op)
            put_function([distributed, torch.distributed], name, around, "collective " + name)
    for name, module in list(sys.modules.items()):  # Those that the program imported by name before.
        for key, value in list(vars(module).items()) if isinstance(module, types.ModuleType) and name.partition(".")[0] != "torch" else ():
            if id(value) in replaced and callable(value):
                setattr(module, key, replaced[id(value)])


def clock():
    """Names this machine since it was started: ranks with one name can compare their times."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return platform.node()


def whole_number(*variables, default=0):
    """That of the first variable that is set."""
    name = next((each for each in variables if os.environ.get(each)), None)
    text = os.environ[name] if name else str(default)
    if not text.isascii() or not text.isdigit():
        raise SystemExit("lockstep_recorder: %s is '%s'; expected a whole number" % (name, text))
    return int(text)


def start(folder=None, program=None, rank=None, world=None):
    """Records from here on, into `folder` or where LOCKSTEP_RECORD says; does nothing where neither is given. Where rank and
    world are not given they are the launcher's (torchrun's variables, or those of Slurm or Open MPI), or else those of the
    process group that the program makes."""
    folder = folder or os.environ.get("LOCKSTEP_RECORD")
    if recorder or not folder:
        return
    is_launched = any(os.environ.get(each) for each in RANK_VARIABLES)
    if rank is None and is_launched:
        rank = whole_number(*RANK_VARIABLES)
    if world is None:
        world = whole_number(*WORLD_VARIABLES, default=1)
    numbers = whole_number("LOCKSTEP_RECORD_VALUES"), whole_number("LOCKSTEP_RECORD_PERTURB")
    try:
        begin(folder, program or sys.argv[0], *numbers)
        if rank is not None:
            recorder.history.open(rank, world)
    except OSError as error:
        raise SystemExit(str(error)) from None
    except Exception as error:  # Such as a release of PyTorch that it does not know.
        print("lockstep_recorder: nothing is recorded: %s" % told(error), file=sys.stderr)
        if recorder:
            recorder.history.has_ended = True
        return
    sys.excepthook, sys.exit = functools.partial(threw, sys.excepthook), functools.partial(exited, sys.exit)
    multiprocessing.process.BaseProcess.start = started(multiprocessing.process.BaseProcess.start)


def begin(*given):
    """Makes the recorder of this process, to which another may have been forked along."""
    global recorder, torch, is_compiling, set_eval_frame
    import torch
    import torch.distributed
    folder, program, values, perturbed = given
    is_first = recorder is None
    about = {"perturbed": perturbed} if perturbed else {}
    target = os.path.join(folder, "perturbed-%d" % perturbed) if perturbed else folder
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    if attempt != "0":  # torchrun starts the ranks again, and the files of the first attempt are there.
        target = os.path.join(target, "restart-" + attempt)
    history = History(target, writer="lockstep_recorder.py", torch=str(torch.__version__), clock=clock(),
                      program=os.path.basename(program), **about)
    recorder = Recorder(history, given)
    if is_first:
        is_compiling = getattr(getattr(torch, "compiler", None), "is_compiling", bool)
        set_eval_frame = getattr(getattr(torch._C._dynamo, "eval_frame", None), "set_eval_frame", lambda _: None)
        install()
    if multiprocessing.process.parent_process() is None:
        atexit.register(ended)
    else:
        multiprocessing.util.Finalize(None, ended, exitpriority=-100)  # Such a process ends without atexit's functions.


def watch(model):
    """Records a model whose gradients the program averages without DistributedDataParallel: its parameters, and gradients as
    each update takes them. Returns it. Does nothing where nothing is recorded."""
    if recorder and recorder.is_on():
        quietly("a watched model", recorder.training.watch, model)
    return model


# How a process ends, and those that it starts

def threw(before, kind, error, trace):
    quietly("an exception", recorder.history.end, "threw", told(error))
    before(kind, error, trace)


def told(error):
    try:
        return "%s: %s" % (type(error).__name__, error)
    except Exception:  # One of the program's that cannot say what it is.
        return type(error).__name__


def exited(original, *code):
    recorder.exit_code = recorder.history.count, code[0] if code else None
    original(*code)


def ended():
    """Of a process of `multiprocessing` an exception is on its way here."""
    error = sys.exc_info()[1]
    if isinstance(error, SystemExit) and error.__context__ is not None:
        error = error.__context__  # What torch.multiprocessing.spawn hands to the parent.
    code = error.code if isinstance(error, SystemExit) else None
    if error is None and recorder.exit_code and recorder.exit_code[0] == recorder.history.count:
        code = recorder.exit_code[1]
    if error is not None and not isinstance(error, SystemExit):
        quietly("an exception", recorder.history.end, "threw", told(error))
    elif code not in (None, 0, False):
        recorder.history.end("exited", str(code))
    recorder.history.end("returned")


class Spawned:
    """What a process runs that a program starts which is no rank itself: it may be one."""

    def __init__(self, target, given):
        self.target, self.given = target, given

    def __call__(self, *args, **kwargs):
        if "torch" in sys.modules and not (recorder and recorder.is_on()):
            begin(*self.given)
        return self.target(*args, **kwargs)


def started(original):
    @functools.wraps(original)
    def function(process):
        target = process._target
        is_helper = getattr(target, "__module__", "").startswith(("torch.utils.data", "multiprocessing", "concurrent"))
        if target is not None and not is_helper and recorder.is_on() and recorder.history.path is None:
            process._target = Spawned(target, recorder.given)
        return original(process)
    return function


def main(arguments):
    folder = None
    if arguments[:1] == ["--record"]:
        folder, arguments = (arguments[1:2] or [None])[0], arguments[2:]
    if not arguments or not (folder or os.environ.get("LOCKSTEP_RECORD")):
        sys.exit("usage: python -m lockstep_recorder --record FOLDER PROGRAM.py [ARGUMENTS]...\n"
                 "LOCKSTEP_RECORD names the folder in place of --record")
    sys.argv, sys.path[0] = arguments, os.path.dirname(os.path.abspath(arguments[0]))
    start(folder, arguments[0])
    try:
        runpy.run_path(arguments[0], run_name="__main__")
    except BaseException:
        ended()
        raise


if __name__ == "__main__":
    import lockstep_recorder  # Under the name by which the program, and the processes that it starts, know it.
    lockstep_recorder.main(sys.argv[1:])
