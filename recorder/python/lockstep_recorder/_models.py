"""Models that are recorded, and whether their tensors have changed."""
import collections
import contextlib
import sys
import weakref

import torch

from ._digests import bytes_of, dtype_name, is_dtensor, plain_tensor
from ._objects import field

# Layers that compute otherwise in evaluation mode.
MODAL = torch.nn.modules.batchnorm._NormBase, torch.nn.modules.dropout._DropoutNd
# Parts that wrappers put between the names of modules.
WRAPPERS = ("_orig_mod.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module.")


def settings_of(modules):
    """How many of PyTorch's layers have each setting: "Dropout(p=0.1, inplace=False)". Containers say where their tensors are."""
    settings = collections.Counter()
    for module in modules:
        kind = type(module)
        if kind.__module__.startswith("torch.nn.modules.") and kind.__module__ != "torch.nn.modules.container":
            with contextlib.suppress(Exception):  # A layer that the program has changed may not be able to say them.
                settings["%s(%s)" % (kind.__name__, kind.extra_repr(module))] += 1
    return {setting: count for setting, count in list(settings.items())[:100] if len(setting) <= 200}


def group_of(module, device_ids=None, output_device=None, dim=0, broadcast_buffers=True, init_sync=True, process_group=None, *_, **more):
    """The process group that DistributedDataParallel is given with these arguments; None for that of all ranks."""
    mesh = more.get("device_mesh")
    return process_group if mesh is None else mesh.get_group(mesh_dim=0)


class Model:
    """A model that the program wrapped, or that is watched. `kind` says how its gradients leave the next backward, by its last
    forward: "synchronised" or "no_sync"; None: there was no forward."""

    def __init__(self, name, wrapper, module, wrapped_by):
        self.name, self.wrapper, self.module, self.wrapped_by = name, weakref.ref(wrapper), weakref.ref(module), wrapped_by
        self.kind, self.forwards, self.forwards_of_step, self.depth = None, 0, 0, 0
        self.group = "world"  # In which it is averaged.
        self.rows = self.shares = 0  # Samples, and parts of batches, whose prints are recorded.
        self.at_wrapping = {clean(name): weakref.ref(p) for name, p in torch.nn.Module.named_parameters(module)}
        self.replaced = []  # Names of parameters that are other tensors now, or none.
        self.is_evaluated = False  # Since the last update.
        self.buffers_came = self.is_training = self.is_moved = self.has_backward = self.drops = self.drew = False
        self.others, self.state = [], None  # Layers in another mode, and the state of the random generator, as the last forward began.
        self.recorded = None  # The parameters and their versions when they were recorded last.
        self.held = None  # Some of their elements then.
        self.updating = ()  # ids of the parameters that an optimizer updates now. They may require no gradient any more.
        self.listed, self.shards_recorded, self.recorded_frozen, self.held_frozen = None, [], None, None
        self.seen = self.taken = None  # Marks of gradients: as they were recorded last, and after the update that took them.

    def named(self, members):
        ignored = self.ignored_names()
        return [(clean(name), tensor) for name, tensor in members(self.module()) if name not in ignored]

    def ignored_names(self):
        return field(self.wrapper(), "parameters_to_ignore") or ()

    def ignored(self):
        names = self.ignored_names()
        return [(clean(name), p) for name, p in torch.nn.Module.named_parameters(self.module()) if name in names] if names else []

    def all_parameters(self):
        """The parameters that the module had when the recorded part of the step began."""
        if self.listed is None:
            self.listed = self.named(torch.nn.Module.named_parameters)
        return self.listed

    def parameters(self):
        return [(name, p) for name, p in self.all_parameters() if self.is_trained(p)]

    def is_trained(self, p):
        return p.requires_grad or id(p) in self.updating

    def replaced_since(self):
        """Names of the parameters that the module had as it was wrapped, and has other tensors for, or none."""
        now = dict(self.all_parameters())
        return [name for name, was in self.at_wrapping.items() if was() is not now.get(name) and name not in self.ignored_names()]

    def frozen(self):
        every = [*self.all_parameters(), *self.ignored()]
        return [(name, p) for name, p in every if not self.is_trained(p) and not is_divided(p) and not p.is_meta]

    def buffers(self):
        return self.named(torch.nn.Module.named_buffers)

    def written_buffers(self):
        """Those of the program's own layers, which other ranks' broadcasts replace."""
        own = {clean(prefix + "." + name if prefix else name) for prefix, each in torch.nn.Module.named_modules(self.module())
               if not type(each).__module__.startswith("torch.") and not isinstance(each, MODAL) for name in field(each, "_buffers")}
        return [(name, buffer) for name, buffer in self.buffers() if name in own] if own else []

    def layers_in_another_mode(self):
        """Names of those that drop units or take statistics, and are in another mode than the module."""
        module = self.module()
        return [clean(name) for name, each in torch.nn.Module.named_modules(module)
                if isinstance(each, MODAL) and each.training != module.training]

    def gradients(self):
        return gradients_of(self.parameters())

    def marked(self):
        """Tensors that tell whether gradients have changed."""
        return self.gradients()

    def owned(self):
        """{id of a parameter: (model, name, whether it is frozen)}"""
        return {id(p): (self, name, not self.is_trained(p)) for name, p in self.all_parameters()}

    def shards(self):
        """This rank's parts of divided tensors: [name, whole shape, where it begins, whether in the
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

    def frozen(self):
        return []

    def gradients(self):
        return self.parts(lambda _, gradient: gradient)

    def marked(self):
        return [("", gradient) for _, _, gradient in self.units()]

    def owned(self):
        return {id(flat): (self, prefix + "_flat_param", False) for prefix, flat, _ in self.units()}

    def shards(self):
        return [[prefix + clean(name), list(shape), [info.intra_param_start_idx or 0], True] for prefix, flat, _ in self.units()
                for name, shape, info in zip(flat._fqns, flat._shapes, flat._shard_param_infos)]


def gradients_of(named):
    return [(name, p.grad if p.is_leaf else None) for name, p in named]


def is_updated(p):
    """Whether an optimizer that has it updates it. A program whose models take turns may let it require no gradient by then."""
    return p.requires_grad or p.is_leaf and p.grad is not None


def clean(name):
    for each in WRAPPERS:
        name = name.replace(each, "")
    return name


def sent(named):
    """The dtype and total size of what a collective of the wrapper sends."""
    tensors = [tensor for _, tensor in named]
    return {"dtype": dtype_name(tensors[0].dtype) if tensors else "", "elements": sum(t.numel() for t in tensors)}


class Marks:
    """The tensors of a list and their values, so far as they are known without reading all of it."""

    def __init__(self, named):
        tensors = [tensor for _, tensor in named]
        self.references = [None if t is None else weakref.ref(t) for t in tensors]
        self.versions = [None if t is None else version_of(t) for t in tensors]

    def are_of(self, named):
        return len(named) == len(self.references) and all(
            (reference is None) if t is None else reference is not None and reference() is t and version == version_of(t)
            for (_, t), reference, version in zip(named, self.references, self.versions))


class Copy:
    """A module that nothing trains, and that the program copied, loaded values into, or only put into evaluation."""

    def __init__(self, module, name, is_loaded):
        self.module, self.name, self.is_loaded, self.recorded = weakref.ref(module), name, is_loaded, None

    def has_changed(self, named):
        """Whether it may have since it was asked last. Averages are often taken in `p.data`."""
        before, self.recorded = self.recorded, (Marks(named), touch(named))
        return before is None or not before[0].are_of(named) or before[1] != self.recorded[1]


def version_of(tensor):
    try:
        return tensor._version
    except RuntimeError:  # Of a tensor that inference made.
        return None


def some_of(tensor):
    """Eight of its elements, evenly over the memory in which they lie, without a copy; none where they lie apart."""
    if not tensor.is_contiguous():
        tensor = tensor.permute(sorted(range(tensor.dim()), key=tensor.stride, reverse=True))
    count = tensor.numel() if tensor.is_contiguous() else 0
    return tensor.as_strided((min(count, 8),), (max(1, count // 8),))


def touch(named):
    """Some elements of each tensor: what writes to `p.grad.data`, or a collective, leaves versions as they are."""
    by_kind = {}
    for _, t in named:
        if t is not None and t.layout == torch.strided and not t.is_meta:
            by_kind.setdefault((t.device, t.dtype), []).append(some_of(plain_tensor(t)))
    return b"".join(bytes_of(torch.cat(each)) for each in by_kind.values())


def is_divided(tensor):
    """Whether the ranks hold parts of it, as those of FullyShardedDataParallel and DTensor do."""
    return is_dtensor(tensor) or hasattr(tensor, "_is_flat_param")
