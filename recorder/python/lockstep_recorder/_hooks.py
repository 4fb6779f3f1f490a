"""Functions of PyTorch that are recorded as they run."""
import contextlib
import functools

import torch

from . import _state
from ._state import here

# True where Dynamo reads a function in place of running it.
is_compiling = getattr(getattr(torch, "compiler", None), "is_compiling", bool)
# Says what compiles functions from here on, and returns what did before.
set_eval_frame = getattr(getattr(torch._C._dynamo, "eval_frame", None), "set_eval_frame", lambda _: None)


def disable_modes():
    """PyTorch's modes, such as one that counts operations, see nothing of what runs in it."""
    stack = contextlib.ExitStack()
    if torch._C._len_torch_dispatch_stack():
        stack.enter_context(torch.utils._python_dispatch._disable_current_modes())
    if torch._C._len_torch_function_stack():
        stack.enter_context(torch._C.DisableTorchFunction())
    return stack


def quietly(what, act, *args):
    """Runs a part of the recorder. An exception in it is a fact of the history and not the program's."""
    if getattr(here, "is_busy", False):
        return None
    callback = set_eval_frame(None)
    here.is_busy = True
    try:
        with disable_modes():
            return act(*args)
    except Exception as error:
        _state.recorder.omit(what, error)
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
    @functools.wraps(original)
    def function(*args, **kwargs):
        if is_compiling() or not _state.recorder.is_on():
            return original(*args, **kwargs)
        # Parts of a backward run in other threads, and a thread may be a rank that has a recorder of its own.
        depths = _state.recorder.backwards if what == "backward" else here
        if getattr(depths, what, False):
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
        _state.recorder.omit(what or name, "this PyTorch has no " + name)
    else:
        setattr(owner, name, hooked(original, around, what or name))
