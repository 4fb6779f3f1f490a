"""Training in worlds, beside the same training in one process."""
from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import torch
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

from . import _calls
from ._api import TIMEOUT_SECONDS, check_sizes, check_timeout, name_of, with_notes
from ._judging import PROGRAM, judge
from ._processes import Capture, Process
from ._rank import Task, no_report
from ._verdict import WorldError
from ._worlds import run_cold

PERTURBED = 1, 2  # Runs of one process that show how far rounding moves each tensor.
LINES_MOST = 40  # Of what a program has printed, where it failed.
ENDING_SECONDS = 10.0
T = TypeVar("T")
Run = Callable[[int, _calls.Recording], None]  # Of a training in a world of a size.


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


def same_as_one_process(train: Callable[[Context], Any] | str | os.PathLike[str], worlds: Sequence[int] = (2, 4), steps: int = 5, *,
                        arguments: Sequence[str] = (), batch_size: str | None = None, timeout: float = TIMEOUT_SECONDS) -> None:
    """Runs a training in one process and in worlds of these sizes, and raises AssertionError unless parameters, gradients
    and buffers are the same in each of the first `steps` steps, up to what rounding does to them in this very training.

    train: a function that takes a Context; all ranks begin with one seed. Or the path of a program, which runs unchanged and
        to its end, with these arguments and the variables of torchrun; it seeds itself.
    batch_size: the option among the arguments that is the batch size of a rank, such as "--batch-size". Its value is that of
        one process; each rank of a world gets its part. Without it all worlds have the same arguments.
    timeout: of each run, in seconds.
    """
    __tracebackhide__ = True
    check_sizes(worlds)
    check_timeout(timeout)
    if not isinstance(steps, int) or steps < 1:
        raise ValueError(f"{steps!r} steps are none to compare")
    if not callable(train) and not (isinstance(train, (str, os.PathLike)) and os.path.isfile(train)):
        raise ValueError(f"{train!r} is neither a function of a context nor a program's file")
    if callable(train) and (arguments or batch_size):
        raise ValueError("arguments and batch_size are those of a program, and a function has none")
    run = run_of_function(train, steps, timeout) if callable(train) else run_of_program(os.fspath(train), arguments, batch_size, worlds, timeout)
    with tempfile.TemporaryDirectory(prefix="lockstep-parity-") as folder:
        one = os.path.join(folder, "one")
        for perturbed in (0, *PERTURBED):
            run(1, _calls.Recording(one, steps, perturbed))
        for size in worlds:
            ranks = os.path.join(folder, f"world{size}")
            run(size, _calls.Recording(ranks, steps))
            code, story = judge(ranks, "--against", one)
            if code:
                raise AssertionError(f"training in a world of {size} is {'not' if code == 1 else 'not known to be'} "
                                     f"the same as in one process\n\n{story}")


def run_of_function(train: Callable[[Context], Any], steps: int, timeout: float) -> Run:
    def run(size: int, recording: _calls.Recording) -> None:
        # One name, and so one seed, in all runs.
        task = Task(name_of(train), recording, keeps_warnings=False, seeds_alike=True)

        def body(rank: int) -> None:
            train(Context(rank, size, steps))
        verdict = run_cold(size, task, body, no_report, timeout, Capture.NOTHING)
        if verdict.kind != "passed":
            raise with_notes(verdict)
    return run


def run_of_program(path: str, arguments: Sequence[str], batch_size: str | None, worlds: Sequence[int], timeout: float) -> Run:
    commands = {size: [sys.executable, path, *(divided(arguments, batch_size, size) if batch_size else arguments)] for size in (1, *worlds)}

    def run(size: int, recording: _calls.Recording) -> None:
        command = ["lockstep", "launch", "-n", str(size), "--record", recording.folder, "--", *commands[size]]
        variables = {"LOCKSTEP_HOST": sys.executable, "LOCKSTEP_RECORD_VALUES": str(recording.values_steps),
                     "LOCKSTEP_RECORD_PERTURB": str(recording.perturbed)}
        process = Process(lambda connection: os.execve(PROGRAM, command, os.environ | variables), Capture.FILES)
        try:
            is_over = process.has_ended(timeout)
            if not is_over:
                os.kill(process.pid, signal.SIGTERM)  # The ranks end with what launched them.
                process.has_ended(ENDING_SECONDS)
            printed = process.printed()
        finally:
            process.close()
        code = os.waitstatus_to_exitcode(process.status or 0)
        if is_over and code == 0:
            return
        error = WorldError(f"{path} in a world of {size} {f'ended with {code}' if is_over else f'did not end within {timeout:g} s'}")
        error.__notes__ = [*(tail(text) for text in printed.values()), judge(recording.folder)[1]]
        raise error
    return run


def tail(text: str) -> str:
    return "\n".join(text.splitlines()[-LINES_MOST:])


def divided(arguments: Sequence[str], option: str, size: int) -> list[str]:
    """The arguments with a rank's part of the option's value: `--option 8` or `option=8`."""
    arguments = list(arguments)
    places = [place for place, each in enumerate(arguments) if each.partition("=")[0] == option]
    if len(places) != 1:
        raise ValueError(f"{option} is among the arguments {len(places)} times; expected once, with the batch size of one process")
    name, sign, value = arguments[places[0]].partition("=")
    if not sign:
        value = "".join(arguments[places[0] + 1:places[0] + 2])
    if not value.isdecimal():
        raise ValueError(f"{option} is {value!r}; expected a whole number")
    if int(value) % size:
        raise ValueError(f"{option} {value} cannot be divided over {size} ranks alike")
    part = str(int(value) // size)
    arguments[places[0]:places[0] + (1 if sign else 2)] = [f"{name}={part}"] if sign else [name, part]
    return arguments
