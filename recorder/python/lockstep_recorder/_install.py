"""Puts the hooks into PyTorch."""
import contextlib
import functools
import importlib
import inspect
import sys
import time
import types

import torch

from . import _state, _workers
from ._collectives import COLLECTIVES
from ._gradients import Engine, observed, observing, queued
from ._hooks import hooked, is_compiling, put, quietly


class Forward:
    """In the place of the context in which DistributedDataParallel runs its module, once its buffers have come."""

    def __init__(self, context, ddp):
        self.context, self.ddp, self.began = context, ddp, time.monotonic_ns()

    def __enter__(self):
        quietly("forward", _state.recorder.training.begin_forward, self.ddp)
        return self.context.__enter__()

    def __exit__(self, *error):
        quietly("forward", _state.recorder.training.end_forward, self.ddp, self.began)
        return self.context.__exit__(*error)


def forward_in(original):
    @functools.wraps(original)
    def function(ddp):
        return original(ddp) if is_compiling() or not _state.recorder.is_on() else Forward(original(ddp), ddp)
    return function


def moving(original):
    @functools.wraps(original)
    def function(ddp, *args, **kwargs):
        inputs = original(ddp, *args, **kwargs)
        return quietly("moved inputs", _state.recorder.training.moved_inputs, ddp, inputs) or inputs
    return function


def moving_parameters(original):
    @functools.wraps(original)
    def function(optimizer, *args, **kwargs):
        result = original(optimizer, *args, **kwargs)
        if _state.recorder.is_on():
            quietly("moved parameters", _state.recorder.training.move, optimizer.param_groups[-1]["params"])
        return result
    return function


def with_own_gradients(original):
    """Registers a communication hook before which the gradients of each bucket are recorded."""
    @functools.wraps(original)
    def function(reducer, state, hook):
        @functools.wraps(hook)
        def own(state, bucket):
            if _state.recorder.is_on():
                quietly("a bucket", _state.recorder.training.leave_bucket, bucket)
            return hook(state, bucket)
        return original(reducer, state, own)
    return function


def looking(work, *args, **kwargs):
    _state.recorder.collectives.look(work)
    yield


def install_moves():
    parallel = torch.nn.parallel.DistributedDataParallel
    parallel._pre_forward = moving(parallel._pre_forward)
    torch.optim.Optimizer.add_param_group = moving_parameters(torch.optim.Optimizer.add_param_group)


def before_step(optimizer, args, kwargs):
    if not is_compiling() and _state.recorder.is_on():
        quietly("update", _state.recorder.training.begin_update, optimizer, args, kwargs)


def after_step(optimizer, args, kwargs):
    if not is_compiling() and _state.recorder.is_on():
        quietly("update", _state.recorder.training.end_update, optimizer, args, kwargs)


CLIPS = "clip_grad_norm_", "clip_grad_value_"
LOOKS = "get_future", "is_completed", "is_success", "synchronize", "result"  # Of a collective that runs.


# Dynamo compiles none of these, only what they call for the program.
CODES = [code for each in (hooked, forward_in, moving, observed, observing, queued) for code in each.__code__.co_consts if isinstance(code, types.CodeType)]
CODES += [each.__code__ for each in (quietly, before_step, after_step, Forward.__init__, Forward.__enter__, Forward.__exit__)]


def install():
    """Puts hooks into PyTorch, once in a process. Each asks for the recorder of the process that it runs in."""
    def part(name, method):
        return lambda *args, **kwargs: getattr(getattr(_state.recorder, name), method)(*args, **kwargs)

    training, loaders, gradients = (functools.partial(part, each) for each in ("training", "loaders", "gradients"))
    parallel, iterator = torch.nn.parallel.DistributedDataParallel, torch.utils.data.dataloader._BaseDataLoaderIter
    join, distributed = torch.distributed.algorithms.join.Join, torch.distributed.distributed_c10d
    put(parallel, "__init__", training("wrap"), "construction")
    put(parallel, "_pre_forward", training("prepare_forward"), "inputs of a forward")
    put(parallel, "_sync_buffers", training("send_buffers"), "buffers")
    if hasattr(parallel, "_inside_ddp_forward"):
        parallel._inside_ddp_forward = forward_in(parallel._inside_ddp_forward)
    if _state.recorder.generator:
        install_moves()
    put(join, "__enter__", training("join"), "join")
    put(join, "__exit__", training("exhausted"), "end of a join")
    put(iterator, "__init__", loaders("make_iterator"), "draw")
    put(iterator, "_reset", loaders("reset"), "draw")
    put(iterator, "_next_index", loaders("draw"), "draw")
    put(iterator, "__next__", loaders("hand"), "batch")
    put(torch.utils.data.DistributedSampler, "__iter__", loaders("deal"), "sampler")
    put(torch.optim.Optimizer, "add_param_group", part("by_hand", "give"), "parameters of an optimizer")
    put(torch.distributed.Work, "wait", part("collectives", "wait"), "wait")
    for name in LOOKS:
        if hasattr(torch.distributed.Work, name):
            put(torch.distributed.Work, name, looking, "a collective's " + name)
    for name in ("register_hook", "register_post_accumulate_grad_hook"):
        if hasattr(torch.Tensor, name):
            setattr(torch.Tensor, name, observing(getattr(torch.Tensor, name)))
    torch.autograd.Variable._execution_engine = Engine()
    put(torch.optim.swa_utils.AveragedModel, "update_parameters", training("average"), "an average of weights")
    put(torch.optim.lr_scheduler.ReduceLROnPlateau, "step", part("schedules", "step"), "a scheduler's metric")
    put(torch.nn.Module, "__setstate__", training("restore"), "a copy of a module")
    put(torch.nn.Module, "load_state_dict", training("restore"), "values of a module")
    put(torch.nn.Module, "register_buffer", training("register_buffer"), "a buffer")
    put(torch.nn.Module, "eval", training("freeze"), "a module in evaluation")
    put(torch.nn.Module, "requires_grad_", training("freeze"), "a frozen module")
    scaler = getattr(sys.modules.get("torch.amp.grad_scaler"), "GradScaler", None)
    if scaler:
        put(scaler, "step", training("scale"), "scaler")
        put(scaler, "scale", gradients("multiply"), "scaled loss")
        put(scaler, "unscale_", gradients("unscale"), "unscaled gradients")
    from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
    register_optimizer_step_pre_hook(before_step)
    register_optimizer_step_post_hook(after_step)

    with contextlib.suppress(ImportError):
        importlib.import_module("torch.distributed.fsdp")  # The first optimizer would load it.
        put(torch.distributed.fsdp.FullyShardedDataParallel, "__init__", training("shard"), "construction")
    _workers.install()
    replaced = {}

    def put_function(owners, name, around, what):
        original = getattr(owners[0], name, None)
        if original is not None:
            replaced[id(original)] = hooked(original, around, what)
            for owner in owners:
                setattr(owner, name, replaced[id(original)])
    put_function([torch.autograd], "backward", training("backward"), "backward")
    put_function([torch.optim.swa_utils], "update_bn", training("estimate"), "statistics of an average")
    for name in CLIPS:
        put_function([torch.nn.utils.clip_grad, torch.nn.utils], name, functools.partial(gradients("clip"), name), "clip")
    distributed_hook = getattr(torch.distributed, "_register_comm_hook", None)
    if distributed_hook is not None:
        torch.distributed._register_comm_hook = with_own_gradients(distributed_hook)
    for package, name in (("torch.distributed.fsdp", "fully_shard"), ("torch.distributed.tensor.parallel", "parallelize_module")):
        if package in sys.modules:
            put_function([sys.modules[package]], name, training("shard"), "construction")
    meshes = [sys.modules[name] for name in ("torch.distributed.device_mesh",) if name in sys.modules]
    put_function([distributed, torch.distributed, *meshes], "init_process_group", part("collectives", "made"), "process group")
    put_function([distributed, torch.distributed], "destroy_process_group", part("by_hand", "leave_group"), "end of a process group")
    put_function([distributed, torch.distributed], "batch_isend_irecv", part("collectives", "exchange"), "exchange")
    for name, (tensor, op) in COLLECTIVES.items():
        if hasattr(distributed, name):
            names = list(inspect.signature(getattr(distributed, name)).parameters)
            around = functools.partial(part("collectives", "collective"), names, tensor, op)
            put_function([distributed, torch.distributed], name, around, "collective " + name)
    for space in list(spaces()):  # Those that the program imported by name before.
        for key, value in list(space.items()):
            if id(value) in replaced and callable(value):
                space[key] = replaced[id(value)]


def spaces():
    """The global names of modules that are not PyTorch's. For the main module of a spawned process it is a copy of those
    that its functions know."""
    for name, module in list(sys.modules.items()):
        if isinstance(module, types.ModuleType) and name.partition(".")[0] != "torch":
            yield vars(module)
            if name == "__main__":
                functions = [each for each in list(vars(module).values()) if isinstance(each, types.FunctionType)]
                known = {id(each.__globals__): each.__globals__ for each in functions}
                yield from (each for each in known.values() if not str(each.get("__name__")).startswith("torch"))
