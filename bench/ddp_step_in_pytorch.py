"""The Python side of bench/ddp_step.py: as bench/ddp_step.cpp, with torch.nn.parallel.DistributedDataParallel.

usage: ddp_step_in_pytorch.py RANK FILE cpu|cuda

Only the Python of .venv-peer can run it.
"""

import json
import platform
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

WORLD_SIZES = {"cpu": 2, "cuda": 1}
BATCH = 32


class ManySmall(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.shifts = torch.nn.ParameterList(torch.zeros(16) for _ in range(1000))
        # Looking each up by name would be most of a forward pass, which C++ does not do either.
        self.listed = list(self.shifts)

    def forward(self, value):
        for shift in self.listed:
            value = value + shift
        return value


def perceptron(width, depth):
    layers = []
    for _ in range(depth):
        layers += [torch.nn.Linear(width, width), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


KINDS = {
    "8k": (64, lambda: perceptron(64, 2)),
    "6m": (1024, lambda: perceptron(1024, 6)),
    "25m": (2048, lambda: perceptron(2048, 6)),
    "small": (16, ManySmall),
}
WAYS = {
    "none": lambda model: model,
    "python": DistributedDataParallel,
    "python_view": lambda model: DistributedDataParallel(model, gradient_as_bucket_view=True),
}


def peak_bytes():
    with open("/proc/self/status", encoding="utf-8") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM:"))


def is_cured():
    """Whether bench_stall_cure was loaded before libc; it can do nothing else than cure."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        return "bench_stall_cure" in maps.read()


def seconds_of_a_step(step, steps, device):
    """As its namesake in ddp_step.cpp."""
    seconds = []
    first = time.perf_counter()
    for _ in range(steps):
        start = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - start)
    if device == "cpu":
        return sorted(seconds)[steps // 2]
    torch.cuda.synchronize()
    return (time.perf_counter() - first) / steps


def run(way, kind, steps, device):
    width, make = KINDS[kind]
    torch.manual_seed(1)
    model = make().to(device)
    replica = WAYS[way](model)
    given = torch.ones(BATCH, width, device=device)

    def step():
        model.zero_grad()
        replica(given).sum().backward()

    for _ in range(max(3, steps // 10)):
        step()
    together = torch.zeros(1, device=device)

    def meet():
        dist.all_reduce(together)
        if device == "cuda":
            torch.cuda.synchronize()

    meet()
    processor_at_start = time.process_time()
    wall = seconds_of_a_step(step, steps, device)
    processor = time.process_time() - processor_at_start
    meet()
    return {"wall": wall, "processor": processor / steps, "peak_bytes": peak_bytes()}


def tell(what):
    print(json.dumps(what), flush=True)


def main():
    rank, file, device = int(sys.argv[1]), sys.argv[2], sys.argv[3]
    torch.set_num_threads(1)
    tell({"pytorch": torch.__version__, "python": platform.python_version(), "cured": is_cured()})
    size = WORLD_SIZES[device]
    on_gpu = {"device_id": torch.device("cuda", 0)} if device == "cuda" else {}
    dist.init_process_group("gloo" if device == "cpu" else "nccl", store=dist.FileStore(file, size), rank=rank,
                            world_size=size, **on_gpu)
    for line in sys.stdin:
        way, kind, steps = line.split()
        tell(run(way, kind, int(steps), device))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
