"""usage: in_worlds.py RANKS FILE [RANKS FILE]...

Runs programs of PyTorch one after another, each in as many processes as torchrun would start, with the variables that torchrun sets,
and prints a line of JSON for each: {"status": .., "output": ..}. torch is loaded once, before the ranks fork. Like torchrun it ends
the other ranks where one has failed.
"""

import json
import os
import runpy
import signal
import sys
import tempfile
import traceback

import torch.distributed as dist
import torch.profiler  # Loaded late it takes a second in each rank.
from torch.nn.parallel import DistributedDataParallel  # noqa: F401


def rank_of(path, rank, size, port, log):
    """The child's part: never returns."""
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(size), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port),
                      TORCHELASTIC_USE_AGENT_STORE="True", OMP_NUM_THREADS="1")
    sys.argv = [path]
    status = 1
    try:
        runpy.run_path(path, run_name="__main__")
        status = 0
    except SystemExit as ended:
        status = ended.code or 0
    except BaseException:  # noqa: BLE001 (what a program of its own would end with)
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def world(path, size):
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    with tempfile.TemporaryFile() as log:
        ranks = {}
        for rank in range(size):
            child = os.fork()
            if child == 0:
                rank_of(path, rank, size, store.port, log.fileno())
            ranks[child] = rank
        status = 0
        while ranks:
            child, ended = os.wait()
            if ranks.pop(child, None) is None or os.waitstatus_to_exitcode(ended) == 0:
                continue
            if status == 0:
                for other in ranks:
                    os.kill(other, signal.SIGKILL)
            status = 1
        log.seek(0)
        return {"status": status, "output": log.read().decode(errors="replace")}


for ranks_of_it, file in zip(sys.argv[1::2], sys.argv[2::2]):
    print(json.dumps(world(file, int(ranks_of_it))), flush=True)
