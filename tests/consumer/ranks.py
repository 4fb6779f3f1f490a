"""A program that was built outside of this tree, as one process or as the ranks of a world."""

import concurrent.futures
import os
import re
import socket
import subprocess

DEADLINE_S = 60  # Each takes a few seconds.
PORTS_MAX = 5

# Variables that a launcher or a person may have set, and those that would lead CMake elsewhere.
NOT_INHERITED = re.compile(r"(LOCAL_|GROUP_|ROLE_)?(RANK|WORLD_SIZE)$|MASTER_|TORCHELASTIC_|OMPI_|PMIX?_|MPI_|SLURM_|GLOO_|"
                           r"CMAKE_|DESTDIR$|lockstep_", re.I)
ENVIRONMENT = {**{name: value for name, value in os.environ.items() if not NOT_INHERITED.match(name)},
               "LC_ALL": "C.UTF-8"}


def run_ranks(program, environments, *arguments):
    """[(exit status, stdout, stderr)] of a process for each environment. Where one fails, all are killed."""
    ranks = []
    try:
        for environment in environments:
            ranks.append(subprocess.Popen(
                [program, *arguments], env={**ENVIRONMENT, **environment}, stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        with concurrent.futures.ThreadPoolExecutor(len(ranks)) as pool:
            ended = {pool.submit(rank.communicate): rank for rank in ranks}
            try:
                for future in concurrent.futures.as_completed(ended, timeout=DEADLINE_S):
                    if ended[future].returncode != 0:
                        break
            except concurrent.futures.TimeoutError:
                pass  # They end by SIGKILL, which their exit statuses say.
            for rank in ranks:
                rank.kill()
            return [(rank.wait(), *future.result()) for future, rank in ended.items()]
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run_world(program, size, *arguments):
    """As run_ranks(), of one world. A port that somebody else took in the meantime is no failure."""
    for _ in range(PORTS_MAX):
        port = str(free_port())
        results = run_ranks(program, [
            {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1",
             "MASTER_PORT": port, "OMP_NUM_THREADS": "1"} for rank in range(size)], *arguments)
        if not any("EADDRINUSE" in err for _, _, err in results):
            break
    return results
