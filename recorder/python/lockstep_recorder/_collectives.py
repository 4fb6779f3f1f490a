"""Records what the program sends through `torch.distributed`."""
import contextlib
import os
import sys
import time
import weakref

import torch

from ._digests import dtype_name
from ._history import DONE, ISSUED

# PyTorch's functions, the tensor that a rank sends, and their names in a history.
COLLECTIVES = {"all_reduce": ("tensor", "allreduce"), "all_reduce_coalesced": ("tensors", "allreduce"),
               "broadcast": ("tensor", "broadcast"), "reduce": ("tensor", "reduce"),
               "all_gather": ("tensor", "allgather"), "all_gather_into_tensor": ("input_tensor", "_allgather_base"),
               "gather": ("tensor", "gather"), "scatter": ("tensor", "scatter"),
               "reduce_scatter_tensor": ("input", "_reduce_scatter_base"), "barrier": (None, "barrier"),
               "reduce_scatter": ("input_list", "reduce_scatter"), "all_to_all": ("input_tensor_list", "alltoall"),
               "all_to_all_single": ("input", "alltoall_base"), "send": ("tensor", "send"), "recv": ("tensor", "recv")}
POINT_TO_POINT = ("send", "recv")
GATHERING, REDUCING = ("allgather", "_allgather_base"), ("allreduce", "reduce", "_reduce_scatter_base", "reduce_scatter")
HERE = os.path.dirname(__file__)


def members_of(group):
    """The ranks of a process group, or of all where it is None."""
    distributed = torch.distributed
    return list(range(distributed.get_world_size()) if group is None else distributed.get_process_group_ranks(group))


def name_of(members):
    return "world" if len(members) == torch.distributed.get_world_size() else "ranks " + ",".join(map(str, members))


class Collectives:
    """The collectives that the program sends through `torch.distributed`, in order."""

    has_futures = True  # Of a backend without them, a collective is done when the program has waited for it.

    def __init__(self, record):
        self.record, self.sequences, self.pending = record, {}, weakref.WeakKeyDictionary()
        self.begun = weakref.WeakKeyDictionary()  # Whether the program has waited for a reduction.
        self.count = self.elements = 0  # Of those that the program issued itself, and what it sent in them.

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
        members = members_of(group)
        if distributed.get_rank() not in members:
            return
        name = name_of(members)
        if op in POINT_TO_POINT:  # Numbered by pairs, since other ranks have no part in it.
            ends = {distributed.get_rank(), *([root] if type(root) is int else [])}
            name = "ranks " + ",".join(map(str, sorted(ends)))
        tensors = [each for each in (sent if type(sent) in (list, tuple) else [sent]) if isinstance(each, torch.Tensor)]
        self.count += 1
        is_cut = op in GATHERING and torch.is_grad_enabled() and any(t.requires_grad for t in tensors)
        is_trimmed = op in GATHERING and runs_within("gather_for_metrics")
        function = function_around()
        self.record.fact("call", at=call_site(), **{"cuts": True} if is_cut else {}, **{"trims": True} if is_trimmed else {},
                         **{"graph": True} if function else {})
        elements = sum(t.numel() for t in tensors)
        self.record.divided_layers.send(function, op, elements)
        self.elements += elements
        self.record.by_hand.reduce(op, elements)
        done = self.issue(op, name, dtype_name(tensors[0].dtype) if tensors else "elements", elements,
                          root if type(root) is int else -1)
        result, error = yield
        if error is not None:
            return
        if not given.get("async_op"):
            done()
        elif result is not None:
            self.pending[result] = done
            if op in REDUCING and tensors:
                self.begun[result] = self.record.gradients.reduce_later(tensors)
            if self.has_futures:
                with contextlib.suppress(RuntimeError):
                    result.get_future().then(lambda _: done())

    def exchange(self, /, *args, **kwargs):
        """Tensors pass between single ranks, in an order that each rank may list its own way: no collective."""
        self.record.fact("exchange", at=call_site())
        yield

    def wait(self, work, /, *args, **kwargs):
        self.look(work)
        _, error = yield
        if error is None:
            self.pending.pop(work, lambda: None)()

    def look(self, work, /, *args, **kwargs):
        """The program waits for a collective, or does something else with it that may tell it when it is done."""
        if work in self.begun:
            self.begun[work][1] = True

    def made(self, /, *args, **kwargs):
        _, error = yield
        if error is None:
            distributed = torch.distributed
            rank, world = distributed.get_rank(), distributed.get_world_size()
            self.record.open(rank, world)
            self.record.fact("process group", rank=rank, world=world, backend=distributed.get_backend())


def runs_within(name):
    """Whether a function of this name runs around the recorder's caller."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_name != name:
        frame = frame.f_back
    return frame is not None


def function_around():
    """The torch.autograd.Function of the program that runs around the recorder's caller, so that gradients flow through what it does: its
    class in a forward, True in a backward, None where there is none."""
    frame, file = sys._getframe(1), torch.autograd.function.__file__
    while frame is not None and frame.f_code.co_filename != file:
        frame = frame.f_back
    return None if frame is None else frame.f_locals.get("cls", True)


def call_site():
    """The innermost frame that is neither PyTorch's nor the recorder's."""
    frame, torch_folder = sys._getframe(1), os.path.dirname(torch.__file__) + os.sep
    while frame.f_back and (frame.f_code.co_filename.startswith(torch_folder) or os.path.dirname(frame.f_code.co_filename) == HERE or
                            frame.f_globals.get("__name__") in ("contextlib", "functools")):
        frame = frame.f_back
    return "%s:%d in %s" % (os.path.basename(frame.f_code.co_filename), frame.f_lineno, frame.f_code.co_name)
