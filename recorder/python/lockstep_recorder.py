"""Records what each rank of a data-parallel training in PyTorch does, for `lockstep judge`. The program stays as it is,

    torchrun --nproc-per-node 2 -m lockstep_recorder --record FOLDER train.py ARGUMENTS

or has two lines more, before it makes its process group:

    import lockstep_recorder
    lockstep_recorder.start()   # into the folder that LOCKSTEP_RECORD names; nothing where it names none

Each rank writes one file, FOLDER/rank0.history, in the format of docs/protocol.md, section 5. A rank that is killed leaves
what it has written. Needs torch alone, and that only once it records.

For `lockstep judge FOLDER --against FOLDER`: LOCKSTEP_RECORD_VALUES=10 records values of parameters, gradients and buffers
in the first 10 steps, besides their digests. LOCKSTEP_RECORD_PERTURB=1 moves parameters and inputs of models by one unit in
the last place, up or down as drawn from this number, and records into FOLDER/perturbed-1.
"""
import atexit
import ctypes
import functools
import hashlib
import json
import math
import os
import platform
import random
import runpy
import struct
import sys
import threading
import time
import weakref

COMMIT = int.from_bytes(b"LOCKSTEP", "little")
BEGIN, MOMENT, OBSERVATION, ISSUED, DONE, ENDING, TENSORS, DIGESTS, FACT, SPAN, VALUES = 1, 2, 3, 4, 5, 8, 11, 12, 13, 14, 15
BYTES_MOST = 64 << 20  # Of a file; `judge` reads no larger one.
ENDING_BYTES = 4096  # Kept free for the last record.
GOLDEN, FIRST, SECOND = (word - (1 << 64) for word in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
ROW = 2048  # Bytes that are hashed together.
NO_TENSOR = (0, -1.0)
# PyTorch's functions, the position of the tensor that a rank sends, and their names in a history.
COLLECTIVES = {"all_reduce": (0, "allreduce"), "broadcast": (0, "broadcast"), "reduce": (0, "reduce"),
               "all_gather": (1, "allgather"), "all_gather_into_tensor": (1, "_allgather_base"), "gather": (0, "gather"),
               "scatter": (0, "scatter"), "reduce_scatter_tensor": (1, "_reduce_scatter_base"), "barrier": (None, "barrier"),
               "all_to_all_single": (1, "alltoall_base"), "send": (0, "send"), "recv": (0, "recv")}


class History:
    """One rank's file: records, each written whole before the next."""

    def __init__(self, folder, rank, world, **about):
        os.makedirs(folder, mode=0o700, exist_ok=True)
        self.path = os.path.join(folder, "rank%d.history" % rank)
        try:
            self.file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as error:
            reason = "is there already; record into a new folder" if os.path.lexists(self.path) else error.strerror
            raise SystemExit("lockstep_recorder: %s: %s" % (self.path, reason)) from None
        self.count = self.bytes = 0
        self.process, self.lock, self.has_ended = os.getpid(), threading.RLock(), False
        self.append(BEGIN, {"protocol": 1, "rank": rank, "world": world, **about})

    def append(self, kind, header, payload=b""):
        """Does nothing in a process that was forked from this one, nor after the ending."""
        if os.getpid() != self.process:
            return
        text = json.dumps(header, separators=(",", ":"), allow_nan=False).encode()
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
        self.append(ENDING, {"kind": kind, "why": why[:ENDING_BYTES // 16], "ns": time.monotonic_ns()})


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


def hashes_of(parts):
    """Of rows of bytes. CUDA has no matrix products of integers."""
    rows = torch.cat(parts).view(torch.int64).view(-1, ROW // 8)
    whole, half = keys(rows.device)
    dot = torch.mv if rows.device.type == "cpu" else lambda words, factors: (words * factors).sum(1)
    return dot(rows, whole) + dot(rows >> 32, half)


def sums_of_hashes(tensors):
    """The digests of contiguous tensors on one device. Small ones are hashed together and large ones in parts, so that
    intermediate tensors stay small."""
    device, most = tensors[0].device, (1 << 18 if tensors[0].device.type == "cpu" else 1 << 25)
    zeros, hashes, parts, room = torch.zeros(ROW, dtype=torch.uint8, device=device), [], [], most
    counts = [t.numel() * t.element_size() // ROW + 1 for t in tensors]
    for tensor in tensors:
        data = tensor.reshape(-1).view(torch.uint8)
        for part in data.split(most):
            if len(part) > room:
                hashes.append(hashes_of(parts))
                parts, room = [], most
            parts.append(part)
            room -= len(part)
        parts.append(zeros[len(data) % ROW:])
    numbers = torch.arange(1, 1 + max(counts), device=device) * GOLDEN
    mixed = mix(torch.cat([*hashes, hashes_of(parts)]) + torch.cat([numbers[:count] for count in counts]))
    ends = mixed.cumsum(0)[torch.tensor(counts, device=device).cumsum(0) - 1]
    return ends - torch.cat([ends.new_zeros(1), ends[:-1]])


def digests_of(tensors):
    """(digest, norm) of each; NO_TENSOR for None. One transfer from each device for all."""
    result, by_device = [NO_TENSOR] * len(tensors), {}
    for number, tensor in enumerate(tensors):
        if tensor is not None:
            by_device.setdefault(tensor.device, []).append(number)
    with torch.no_grad():
        for numbers in by_device.values():
            dense = [t.detach() if t.layout == torch.strided else t.detach().to_dense() for t in (tensors[n] for n in numbers)]
            flat = [t.contiguous() for t in dense]
            norms = [torch.linalg.vector_norm(t if t.is_floating_point() or t.is_complex() else t.double()) for t in flat]
            pairs = zip(sums_of_hashes(flat).tolist(), torch.stack(norms).tolist())
            for number, pair in zip(numbers, pairs):
                result[number] = pair
    return result


def bytes_of(tensor):
    tensor = tensor.detach().to_dense() if tensor.layout != torch.strided else tensor.detach()
    tensor = tensor.cpu().contiguous()
    return ctypes.string_at(tensor.data_ptr(), tensor.numel() * tensor.element_size()) if tensor.numel() else b""


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


def plain(value):
    """A value of a fact as JSON: numbers that JSON lacks as text, a tensor of one element as its number."""
    if torch.is_tensor(value):
        value = value.item() if value.numel() == 1 else "a tensor"
    if isinstance(value, (list, tuple, dict)):
        return [plain(each) for each in value] if not isinstance(value, dict) else {k: plain(v) for k, v in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, (bool, int, float, str)) else type(value).__name__


def fingerprint_of(dataset):
    """Of its first sample, which tells one dataset from another; draws no random number that the program would."""
    numpy = sys.modules.get("numpy")
    states = torch.get_rng_state(), random.getstate(), numpy and numpy.random.get_state()
    try:
        parts = [part for part in torch.utils._pytree.tree_leaves(dataset[0])]
        texts = [digests_of([part]) if torch.is_tensor(part) else repr(part) for part in parts]
        return hashlib.sha256(repr(texts).encode()).hexdigest()[:16]
    except Exception:  # Whatever a dataset of somebody throws, its loader will say.
        return None
    finally:
        torch.set_rng_state(states[0])
        random.setstate(states[1])
        if numpy:
            numpy.random.set_state(states[2])


class Model:
    """A wrapped model. `kind` says how its gradients leave the next backward, by its last forward: "synchronised",
    "no_sync", or "bare", past the wrapper; None: there was no forward."""

    def __init__(self, name, wrapper):
        self.name, self.wrapper, self.kind, self.is_in_forward, self.buffers_done = name, weakref.ref(wrapper), None, False, None
        self.recorded = None  # The versions of the parameters when they were recorded last.
        self.is_moved = False

    def tensors(self, named):
        ignored = getattr(self.wrapper(), "parameters_to_ignore", ())
        return [(name, tensor) for name, tensor in named if name not in ignored]

    def parameters(self):
        return self.tensors((name, p) for name, p in self.wrapper().module.named_parameters() if p.requires_grad)

    def buffers(self):
        return self.tensors(self.wrapper().module.named_buffers())

    def sent(self, named):
        """What a collective of the wrapper sends, in all."""
        tensors = [tensor for _, tensor in named]
        return {"dtype": str(tensors[0].dtype).replace("torch.", "") if tensors else "", "elements": sum(t.numel() for t in tensors)}


class Recorder:
    """What PyTorch's functions do around themselves once `install` has put this in their place; `original` is PyTorch's. What
    precedes the program's own arguments is positional alone, since these may have any names."""

    def __init__(self, history, values_steps=0, perturbed=0):
        self.history, self.step, self.moment = history, 0, None
        self.values_steps, self.generator = values_steps, torch.Generator().manual_seed(perturbed) if perturbed else None
        self.stepping, self.pending = None, weakref.WeakKeyDictionary()
        self.lists, self.sequences, self.models, self.wrapped = {}, {}, [], 0
        self.names, self.epochs = {kind: weakref.WeakKeyDictionary() for kind in ("optimizer", "loader", "sampler")}, {}
        self.iterators, self.starting, self.is_drawing = weakref.WeakKeyDictionary(), None, False
        self.joins = 0

    def at(self, phase):
        if self.moment != (self.step, phase):
            self.moment = (self.step, phase)
            self.history.append(MOMENT, {"step": self.step, "phase": phase})

    def fact(self, name, **values):
        self.history.append(FACT, {"name": name, "values": plain(values)})

    def timed(self, span, original, /, *args, **kwargs):
        began = time.monotonic_ns()
        try:
            return original(*args, **kwargs)
        finally:
            self.history.append(SPAN, {"name": span, "from": began, "ns": time.monotonic_ns()})

    def digests(self, owner, role, named):
        known = [(name, str(t.dtype).replace("torch.", ""), list(t.shape)) if t is not None else (name, "", []) for name, t in named]
        key = (owner, role, json.dumps(known))
        if key not in self.lists:
            self.lists[key] = len(self.lists)
            self.history.append(TENSORS, {"list": self.lists[key], "of": owner, "role": role, "tensors": known})
        self.history.append(DIGESTS, {"list": self.lists[key]},
                            b"".join(struct.pack("<qd", *pair) for pair in digests_of([tensor for _, tensor in named])))
        if self.step < self.values_steps and role in ("parameters", "gradients", "buffers") and named:
            self.history.append(VALUES, {"list": self.lists[key]}, b"".join(bytes_of(t) for _, t in named if t is not None))

    def name_of(self, kind, thing):
        return self.names[kind].setdefault(thing, "%s %d" % (kind, len(self.names[kind])))

    def issue(self, op, group="world", dtype="", elements=0, root=-1):
        sequence = self.sequences[group] = self.sequences.get(group, -1) + 1
        self.history.append(ISSUED, {"op": op, "group": group, "dtype": dtype, "sequence": sequence, "elements": elements,
                                     "root": root, "ns": time.monotonic_ns()})
        once = iter([True])  # A future and a wait may both say so.
        return lambda: next(once, False) and self.history.append(DONE, {"group": group, "sequence": sequence,
                                                                        "ns": time.monotonic_ns()})

    def collective(self, original, op, position, /, *args, **kwargs):
        sent = args[position] if position is not None and len(args) > position else kwargs.get("tensor", kwargs.get("input"))
        group, root = kwargs.get("group"), kwargs.get("src", kwargs.get("dst"))
        root = args[1] if root is None and op in ("broadcast", "reduce") and len(args) > 1 else root
        members = torch.distributed.get_process_group_ranks(group) if group is not None else []
        name = "world" if len(members) in (0, torch.distributed.get_world_size()) else "ranks " + ",".join(map(str, members))
        has_tensor = torch.is_tensor(sent)
        done = self.issue(op, name, str(sent.dtype).replace("torch.", "") if has_tensor else "elements",
                          sent.numel() if has_tensor else 0, -1 if root is None else root)
        result = original(*args, **kwargs)
        if not kwargs.get("async_op"):
            done()
        elif result is not None:
            self.pending[result] = done
            try:
                result.get_future().then(lambda _: done())
            except RuntimeError:  # A backend without futures: it is done when the program has waited for it.
                pass
        return result

    def wait(self, original, work, /, *args, **kwargs):
        result = original(work, *args, **kwargs)
        self.pending.pop(work, lambda: None)()
        return result

    def parameters(self, model):
        """Recorded where they may have changed since they were last."""
        versions = [p._version for _, p in model.parameters()]
        if versions != model.recorded:
            model.recorded = versions
            self.digests(model.name, "parameters", model.parameters())

    def live_models(self):
        self.models = [model for model in self.models if model.wrapper() is not None]
        return self.models

    def wrap(self, original, ddp, /, *args, **kwargs):
        self.at("construction")
        model = Model("model %d" % self.wrapped, ddp)
        done = self.issue("ddp_construction", dtype="parameters", elements=sum(1 for _ in (args[0] if args else kwargs["module"]).parameters()))
        original(ddp, *args, **kwargs)
        done()
        self.wrapped += 1
        self.models.append(model)
        drops = sum(isinstance(m, torch.nn.modules.dropout._DropoutNd) and m.p > 0 or
                    isinstance(getattr(m, "dropout", None), float) and m.dropout > 0 for m in ddp.module.modules())
        norms = sum(isinstance(m, torch.nn.modules.batchnorm._BatchNorm) and not isinstance(m, torch.nn.SyncBatchNorm)
                    for m in ddp.module.modules())
        self.fact(model.name, kind=type(ddp.module).__name__, broadcast_buffers=ddp.broadcast_buffers, dropouts=drops,
                  batch_norms=norms, find_unused_parameters=ddp.find_unused_parameters, parameters=len(model.parameters()))
        self.parameters(model)

    def forward(self, original, ddp, /, *args, **kwargs):
        model = next((model for model in self.live_models() if model.wrapper() is ddp), None)
        if model is None:
            return original(ddp, *args, **kwargs)
        self.at("forward")
        if torch.is_grad_enabled():
            model.kind = "synchronised" if ddp.require_backward_grad_sync else "no_sync"
        model.buffers_done = self.issue("ddp_buffers", **model.sent(model.buffers())) if ddp.will_sync_module_buffers() else None
        model.is_in_forward = True
        if self.generator:
            args, kwargs = self.move(model, args, kwargs)
        try:
            return self.timed("forward", original, ddp, *args, **kwargs)
        finally:
            model.is_in_forward = False

    def move(self, model, args, kwargs):
        """The model, before its first forward, and the inputs of each."""
        if not model.is_moved:
            with torch.no_grad():
                for _, parameter in model.parameters():
                    parameter.copy_(moved(parameter, self.generator))
        model.is_moved = True
        return torch.utils._pytree.tree_map(lambda value: moved(value, self.generator), (args, kwargs))

    def before_module(self, module, _):
        model = next((model for model in self.models if getattr(model.wrapper(), "module", None) is module), None)
        is_training = module.training and torch.is_grad_enabled()
        if model is None or not (model.is_in_forward or is_training):
            return
        self.at("forward")
        if not model.is_in_forward:
            model.kind = model.kind or "bare"
        elif model.buffers_done:
            model.buffers_done()
            self.digests(model.name, "buffers", model.buffers())
        if is_training:
            self.parameters(model)
            device = next((p.device for p in module.parameters()), torch.device("cpu"))
            state = torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.get_rng_state()
            self.digests(model.name, "random", [("generator", state)])

    def backward(self, original, tensors, *args, **kwargs):
        models = [model for model in self.live_models() if model.kind]
        self.at("backward")
        done = [self.issue("ddp_backward", **model.sent(model.parameters())) for model in models if model.kind == "synchronised"]
        result = self.timed("backward", original, tensors, *args, **kwargs)
        for each in done:
            each()
        for model in models:
            self.fact("backward", model=model.name, kind=model.kind, loss=tensors)
            self.digests(model.name, "gradients", [(name, p.grad) for name, p in model.parameters()])
            model.kind = None
        return result

    def steps(self, optimizer, *_):
        if self.stepping in (None, optimizer):
            self.stepping, self.update_began = optimizer, time.monotonic_ns()

    def stepped(self, optimizer, *_):
        if optimizer is not self.stepping:  # The one that another has within it.
            return
        self.stepping = None
        self.at("update")
        self.history.append(SPAN, {"name": "update", "from": self.update_began, "ns": time.monotonic_ns()})
        owners = {id(p): [model.name, name] for model in self.live_models() for name, p in model.parameters()}
        places = [p for group in optimizer.param_groups for p in group["params"]]
        state = [(" ".join([*owners.get(id(p), ["parameter", str(number)]), key]), value) for number, p in enumerate(places)
                 for key, value in optimizer.state.get(p, {}).items() if torch.is_tensor(value)]
        groups = [{key: value for key, value in group.items() if key != "params"} for group in optimizer.param_groups]
        owned = [owners[id(p)] for p in places if id(p) in owners]
        name, divides = self.name_of("optimizer", optimizer), type(optimizer).__name__ == "ZeroRedundancyOptimizer"
        self.fact(name, kind=type(optimizer).__name__, groups=groups, owned=owned, foreign=len(places) - len(owned))
        if not divides:  # Otherwise each rank has the state of other parameters.
            self.digests(name, "state", state)
        for model in self.models:
            model.recorded = None
            self.parameters(model)
        self.step += 1

    def join(self, original, join):
        if join._enable:
            self.at("join")
            self.fact("join %d" % self.joins)
        return original(join)

    def exhausted(self, original, join, error, *about):
        """This rank has no more inputs: from here on it shadows its peers, and holds the last one's parameters at the end."""
        if not join._enable or error:
            return original(join, error, *about)
        self.at("join")
        original(join, error, *about)
        self.at("joined")
        self.fact("join %d ended" % self.joins)
        self.joins += 1
        for model in self.live_models():
            model.recorded = None
            self.parameters(model)

    def split(self, name, dataset, sampler, batch_size, drops_batch):
        """A pass over a dataset begins."""
        self.at("data")
        self.epochs[name] = self.epochs.get(name, -1) + 1
        shard = {"replicas": sampler.num_replicas, "rank": sampler.rank, "shuffle": sampler.shuffle, "seed": sampler.seed,
                 "sampler_epoch": sampler.epoch, "drops": sampler.drop_last} if hasattr(sampler, "num_replicas") else {}
        self.fact(name, epoch=self.epochs[name], length=len(dataset) if hasattr(dataset, "__len__") else None,
                  sampler=type(sampler).__name__, batch_size=batch_size, drops_batch=bool(drops_batch), **shard,
                  fingerprint=None if shard or self.epochs[name] else fingerprint_of(dataset))

    def drawn(self, name, indices):
        if all(isinstance(index, int) for index in indices):
            self.history.append(OBSERVATION, {"name": name, "dtype": "int64", "shape": [len(indices)]},
                                struct.pack("<%dq" % len(indices), *indices))

    def iterate(self, original, loader):
        name, batches = self.name_of("loader", loader), loader.batch_sampler or loader
        self.split(name, loader.dataset, getattr(batches, "sampler", None), getattr(batches, "batch_size", None),
                   getattr(batches, "drop_last", False))
        self.starting, iterator = name, original(loader)
        self.iterators[iterator] = name
        return iterator

    def next_index(self, original, iterator):
        name, self.is_drawing = self.iterators.get(iterator, self.starting), True
        try:
            index = original(iterator)
        except StopIteration:
            self.fact(name + " exhausted")
            raise
        finally:
            self.is_drawing = False
        self.drawn(name, index if isinstance(index, list) else [index])
        return index

    def deal(self, original, sampler):
        if self.is_drawing:  # By a loader, which records it.
            return original(sampler)
        name, indices = self.name_of("sampler", sampler), list(original(sampler))
        self.split(name, sampler.dataset, sampler, 1, False)
        self.drawn(name, indices)
        self.fact(name + " exhausted")
        return iter(indices)


def clock():
    """Names this machine since it was started: ranks with one name can compare their times."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return platform.node()


def whole_number(variable):
    """0 where it is not set."""
    text = os.environ.get(variable, "") or "0"
    if not text.isascii() or not text.isdigit():
        raise SystemExit("lockstep_recorder: %s is '%s'; expected a whole number" % (variable, text))
    return int(text)


recorder = None  # The one of this process, once it records.


def put(owner, name, around, *first):
    """Puts `around` in the place of `owner.name`, which it receives as its first argument."""
    original = getattr(owner, name)
    setattr(owner, name, functools.wraps(original)(lambda *args, **kwargs: around(original, *first, *args, **kwargs)))


def install():
    parallel, loaders = torch.nn.parallel.DistributedDataParallel, torch.utils.data.dataloader
    put(parallel, "__init__", recorder.wrap)
    put(parallel, "forward", recorder.forward)
    put(torch.autograd, "backward", recorder.backward)
    put(torch.utils.data.DataLoader, "__iter__", recorder.iterate)
    put(loaders._BaseDataLoaderIter, "_next_index", recorder.next_index)
    put(loaders._BaseDataLoaderIter, "__next__", functools.partial(recorder.timed, "data"))
    put(torch.utils.data.DistributedSampler, "__iter__", recorder.deal)
    put(torch.distributed.algorithms.join.Join, "__enter__", recorder.join)
    put(torch.distributed.algorithms.join.Join, "__exit__", recorder.exhausted)
    torch.nn.modules.module.register_module_forward_pre_hook(recorder.before_module)
    from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
    register_optimizer_step_pre_hook(recorder.steps)
    register_optimizer_step_post_hook(recorder.stepped)
    put(torch.distributed.Work, "wait", recorder.wait)
    for name, (position, op) in COLLECTIVES.items():
        put(torch.distributed.distributed_c10d, name, recorder.collective, op, position)
        setattr(torch.distributed, name, getattr(torch.distributed.distributed_c10d, name))

    def made(original, /, *args, **kwargs):
        original(*args, **kwargs)
        recorder.fact("process group", rank=torch.distributed.get_rank(), world=torch.distributed.get_world_size(),
                      backend=torch.distributed.get_backend())
    put(torch.distributed.distributed_c10d, "init_process_group", made)
    torch.distributed.init_process_group = torch.distributed.distributed_c10d.init_process_group


def start(folder=None, program=None):
    """Records from here on, into `folder` or where LOCKSTEP_RECORD says; does nothing where neither is given. The rank and
    the world size are the launcher's: torchrun's variables, or those of Slurm or Open MPI."""
    global recorder, torch
    folder = folder or os.environ.get("LOCKSTEP_RECORD")
    if recorder or not folder:
        return
    number = [next((int(os.environ[name]) for name in names if name in os.environ), default) for names, default in (
        (("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK"), 0), (("WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE"), 1))]
    import torch
    import torch.distributed
    values, perturbed = whole_number("LOCKSTEP_RECORD_VALUES"), whole_number("LOCKSTEP_RECORD_PERTURB")
    about = {"perturbed": perturbed} if perturbed else {}
    if perturbed:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        folder = os.path.join(folder, "perturbed-%d" % perturbed)
    history = History(folder, *number, writer="lockstep_recorder.py", torch=str(torch.__version__), clock=clock(),
                      program=os.path.basename(program or sys.argv[0]), **about)
    recorder = Recorder(history, values, perturbed)
    install()
    atexit.register(history.end, "returned")
    before = sys.excepthook

    def threw(kind, error, trace):
        history.end("threw", "%s: %s" % (kind.__name__, error))
        before(kind, error, trace)
    sys.excepthook = threw


def main(arguments):
    folder = None
    if arguments[:1] == ["--record"]:
        folder, arguments = (arguments[1:2] or [None])[0], arguments[2:]
    if not arguments or not (folder or os.environ.get("LOCKSTEP_RECORD")):
        sys.exit("usage: python -m lockstep_recorder --record FOLDER PROGRAM.py [ARGUMENTS]...\n"
                 "LOCKSTEP_RECORD names the folder in place of --record")
    sys.modules["lockstep_recorder"] = sys.modules[__name__]
    sys.argv, sys.path[0] = arguments, os.path.dirname(os.path.abspath(arguments[0]))
    start(folder, arguments[0])
    try:
        runpy.run_path(arguments[0], run_name="__main__")
    except SystemExit as error:
        if error.code not in (None, 0):
            recorder.history.end("exited", str(error.code))
        raise


if __name__ == "__main__":
    main(sys.argv[1:])
