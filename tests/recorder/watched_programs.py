"""Programs that a recorder must not change: each trains a few steps and prints what it came to.

usage: watched_programs.py FOLDER [NAME]...     runs each NAME twice, in the folders FOLDER/NAME/plain and FOLDER/NAME/recorded

For each rank the folder has the output (rank0.out), the errors (rank0.err) and the exit status (rank0.status); below
recorded/run are the histories. Runs with PyTorch's Python. Torch is loaded once, and each rank is a fork.
"""

import atexit
import datetime
import hashlib
import importlib
import os
import random
import signal
import sys
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(HERE)), "recorder", "python"))
os.environ.update(OMP_NUM_THREADS="1", TORCHINDUCTOR_COMPILE_THREADS="1")

import numpy
import torch
import torch._dynamo
import torch.distributed as dist
from torch import nn

import lockstep_recorder

WORLD, DEADLINE_S = 2, 100
MODULES = ("programs_of_datasets", "programs_of_gradients", "programs_of_loaders", "programs_of_models", "programs_that_compile", "programs_that_divide",
           "programs_that_end")
PROGRAMS = {}


def program(function):
    PROGRAMS[function.__name__] = function
    return function


def say(*values):
    """One line that differs where a bit of a value does."""
    texts = []
    for value in values:
        if isinstance(value, nn.Module):
            value = [p.detach() for p in value.parameters()]
        if isinstance(value, (list, tuple)) and value and isinstance(value[0], torch.Tensor):
            into = hashlib.sha256()
            for each in value:
                each = each.to_local() if hasattr(each, "to_local") else each
                into.update(each.detach().cpu().contiguous().numpy().tobytes())
            value = into.hexdigest()[:12]
        texts.append(str(value.item() if isinstance(value, torch.Tensor) and value.numel() == 1 else value))
    print(*texts, flush=True)


def random_states():
    parts = repr((torch.get_rng_state().tolist(), random.getstate(), [str(each) for each in numpy.random.get_state()]))
    return hashlib.sha256(parts.encode()).hexdigest()[:12]


def run_rank(rank, name, folder, is_recorded):
    """Does what the interpreter does around a program."""
    for number, kind in ((1, "out"), (2, "err")):
        file = os.open(os.path.join(folder, "rank%d.%s" % (rank, kind)), os.O_WRONLY | os.O_CREAT, 0o600)
        os.dup2(file, number)
    signal.alarm(DEADLINE_S)
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(WORLD), LOCAL_RANK=str(rank))
    if is_recorded:
        lockstep_recorder.start(os.path.join(folder, "run"), name + ".py")
    status = 0
    try:
        torch.manual_seed(7 + rank)
        random.seed(rank)
        numpy.random.seed(rank)
        dist.init_process_group("gloo", init_method="file://" + os.path.join(folder, "store"), rank=rank, world_size=WORLD,
                                timeout=datetime.timedelta(seconds=DEADLINE_S // 2))
        PROGRAMS[name](rank)
        say("random", random_states())
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else 0 if error.code is None else 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
        status = 1
    atexit._run_exitfuncs()
    sys.stdout.flush()
    with open(os.path.join(folder, "rank%d.status" % rank), "w", encoding="ascii") as file:
        file.write(str(status))
    os._exit(status)


def run(folder, name, is_recorded):
    folder = os.path.join(folder, name, "recorded" if is_recorded else "plain")
    os.makedirs(folder)
    ranks = []
    for rank in range(WORLD):
        ranks.append(os.fork())
        if ranks[-1] == 0:
            try:
                run_rank(rank, name, folder, is_recorded)
            finally:
                traceback.print_exc()
                os._exit(70)
    for process in ranks:
        os.waitpid(process, 0)


def main(folder, names):
    for module in MODULES:  # They fill PROGRAMS.
        importlib.import_module(module)
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(folder, "inductor")
    torch.optim.SGD(nn.Linear(1, 1).parameters(), lr=1)
    for name in names or PROGRAMS:
        for is_recorded in (False, True):
            run(folder, name, is_recorded)


if __name__ == "__main__":
    sys.modules["watched_programs"] = sys.modules[__name__]
    sys.path.insert(0, HERE)
    main(sys.argv[1], sys.argv[2:])
