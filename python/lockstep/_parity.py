"""Training in worlds, beside the same training in one process."""
from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import torch
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

from . import _calls
from ._api import TIMEOUT_SECONDS, checked_sizes, with_notes
from ._judging import judge
from ._processes import Capture
from ._rank import Task
from ._worlds import run_cold

PERTURBED = 1, 2  # Runs of one process that show how far rounding moves each tensor.
T = TypeVar("T")


class Context:
    """The context of a training that is to be the same in each world."""

    def __init__(self, rank: int, world_size: int, steps: int) -> None:
        self.rank, self.world_size, self.steps = rank, world_size, steps

    def batches(self, dataset: Dataset[T], global_batch_size: int) -> Iterator[Any]:
        """This rank's part of the first global batches, as many as there are steps: those of a DistributedSampler that shuffles."""
        if global_batch_size % self.world_size:
            raise ValueError(f"a global batch of {global_batch_size} cannot be divided over {self.world_size} ranks alike")
        sampler: DistributedSampler[Any] = DistributedSampler(dataset, self.world_size, self.rank, drop_last=True)
        loader = DataLoader(dataset, global_batch_size // self.world_size, sampler=sampler, drop_last=True)
        yield from (batch for _, batch in zip(range(self.steps), loader))

    def wrap(self, model: torch.nn.Module) -> DistributedDataParallel:
        """DistributedDataParallel, in one process too."""
        return DistributedDataParallel(model)


def same_as_one_process(train: Callable[[Context], Any], worlds: Sequence[int] = (2, 4), steps: int = 5, *,
                        timeout: float = TIMEOUT_SECONDS) -> None:
    """Runs train(context) in one process and in worlds of these sizes, and raises AssertionError unless parameters, gradients
    and buffers are the same in each of the first `steps` steps, up to what rounding does to them in this very training. All
    ranks begin with one seed."""
    __tracebackhide__ = True
    checked_sizes(tuple(worlds))
    with tempfile.TemporaryDirectory(prefix="lockstep-parity-") as folder:
        one = os.path.join(folder, "one")
        for perturbed in (0, *PERTURBED):
            record(train, 1, steps, timeout, _calls.Recording(one, steps, perturbed))
        for size in worlds:
            ranks = os.path.join(folder, f"world{size}")
            record(train, size, steps, timeout, _calls.Recording(ranks, steps))
            code, story = judge(ranks, "--against", one)
            if code:
                raise AssertionError(f"training in a world of {size} is {'not' if code == 1 else 'not known to be'} "
                                     f"the same as in one process\n\n{story}")


def record(train: Callable[[Context], Any], size: int, steps: int, timeout: float, recording: _calls.Recording) -> None:
    # One name, and so one seed, in all runs.
    task = Task(f"{train.__module__}.{train.__qualname__}", recording, keeps_warnings=False, seeds_alike=True)

    def body(rank: int) -> None:
        train(Context(rank, size, steps))
    verdict = run_cold(size, task, body, lambda error: None, timeout, Capture.NOTHING)
    if verdict.kind != "passed":
        raise with_notes(verdict)
