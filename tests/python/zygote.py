"""A process that has imported what takes seconds, PyTorch and pytest, and that forks for each request what `python COMMAND` would be.

Requests and answers are lines of JSON. {"command", "folder", "environment", "printed"} starts a process, in a session of its own and with its output in a
file, and is answered by its pid; {"ended": pid} takes the exit status of one that has ended.
"""

import contextlib
import ctypes
import gc
import io
import json
import os
import runpy
import sys
import tempfile

MARKER = "PROJECT_OF_TEST"  # Each process that a run starts, by whatever way, has it in its environment.
LIBC = ctypes.CDLL(None)
LIBC.getenv.restype = ctypes.c_void_p


def prepare():
    """Imports, as a run of pytest does: it compiles anew what its plugins are made of."""
    import pytest
    import torch._dynamo
    import torch.distributed.fsdp
    import torch.distributed.tensor.parallel  # noqa: F401
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        pytest.main([folder, "-p", "no:cacheprovider"])
    gc.freeze()  # pytest collects garbage as it ends.


def settle(folder, environment, printed):
    os.setsid()
    os.chdir(folder)
    # /proc shows the memory that the environment had at the start, and a copy of it after a fork.
    ctypes.memmove(LIBC.getenv(MARKER.encode()), environment[MARKER].encode(), len(environment[MARKER]))
    os.environ.clear()
    os.environ.update(environment)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(os.open(printed, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666), 1)
    os.dup2(1, 2)
    os.closerange(3, 100)
    sys.path[0] = folder


def become(program, *arguments):
    """Runs `-m MODULE` or a file, as a Python that has just started does."""
    if program == "-m":
        sys.argv = list(arguments)
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv = [program, *arguments]
        runpy.run_path(program, run_name="__main__")


def next_command():
    """Answers requests, and returns in each process that it forks, with the command; None in this one at the end of the requests."""
    for line in sys.stdin:
        request = json.loads(line)
        if "ended" in request:
            answer = os.waitstatus_to_exitcode(os.waitpid(request["ended"], 0)[1])
        elif (answer := os.fork()) == 0:
            settle(request["folder"], request["environment"], request["printed"])
            return request["command"]
        print(json.dumps(answer), flush=True)
    return None


if __name__ == "__main__":
    prepare()
    command = next_command()
    if command:
        become(*command)
