#!/usr/bin/env python3
"""Training on CIFAR-10 with 1, 2 and 4 processes: examples/cifar10 beside the same program in Python's DDP, in one run.

usage: cifar10.py [--rounds N] [--ranks 1,2,4] [--images N] [--epochs N] [--build FOLDER]

Both are started by `lockstep launch`, with one thread a rank, over Gloo on loopback, and read the same made-up images.
They take turns, and every other round backwards, since what a machine does next door changes by the second.
Speed is that of the last epoch, as the programs print it; processor time and the largest rank's memory are those
of the whole program, with imports and, in ours alone, evaluation. A ratio is the median of the rounds' ratios,
ours to Python's, with the least and the greatest behind it. Ours runs once with batch normalisation over each
rank's own images, as Python's does, whose SyncBatchNorm does not run on the CPU, and once with SyncBatchNorm.

Any Python starts it. Exit 77: ./lockstep setup --peer has not made the one that runs PyTorch's side; 2: our side
has not been built (ninja -C BUILD lockstep examples), or a program failed.
"""

import argparse
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
from collections import namedtuple

ROOT = pathlib.Path(__file__).resolve().parent.parent
PEER = ROOT / ".venv-peer"
BATCH = 64

Turn = namedtuple("Turn", "speed processor_s peak_bytes")  # images a second


def command_of(way, build, data, epochs):
    common = ["--data", data, "--epochs", str(epochs), "--batch", str(BATCH)]
    if way == "python":
        return [PEER / "bin" / "python", ROOT / "bench" / "cifar10_in_pytorch.py", *common]
    return [build / "examples" / "cifar10", *common, "--log-steps", "0", "--sync-batchnorm", str(int(way == "ours, SyncBatchNorm"))]


WAYS = ["ours", "ours, SyncBatchNorm", "python"]


def run(way, ranks, build, data, epochs):
    """A Turn of this way."""
    launch = [build / "cli" / "lockstep", "launch", "-n", str(ranks), "--", *command_of(way, build, data, epochs)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(list(map(str, launch)), stdout=output, stderr=subprocess.STDOUT, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        said = output.read()
    speeds = re.findall(r"(\d+) images/s", said)
    if process.returncode != 0 or len(speeds) != epochs:
        raise RuntimeError(f"{' '.join(map(str, launch))} ended with {process.returncode}:\n{said[-2000:]}")
    return Turn(int(speeds[-1]), usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)


def compared(turns, way, what):
    """ "1.30 x (1.21 to 1.42)": the rounds' ratios of this way to Python's."""
    ratios = [getattr(ours, what) / getattr(pythons, what) for ours, pythons in zip(turns[way], turns["python"])]
    return f"{statistics.median(ratios):.2f} x ({min(ratios):.2f} to {max(ratios):.2f})"


def lines(ranks, turns):
    for way in WAYS:
        middle = Turn(*(statistics.median(column) for column in zip(*turns[way])))
        text = (f"{ranks} ranks  {way:20} {middle.speed:7,.0f} images/s  {middle.processor_s:6.1f} s of processors  "
                f"{middle.peak_bytes / 2**20:5.0f} MiB a rank")
        if way != "python":
            text += "  " + "  ".join(f"{name} {compared(turns, way, what)}" for name, what in
                                     (("speed", "speed"), ("processors", "processor_s"), ("memory", "peak_bytes")))
        yield text


def measure(arguments, data):
    for ranks in arguments.ranks:
        turns = {way: [] for way in WAYS}
        for number in range(arguments.rounds):
            for way in WAYS if number % 2 == 0 else reversed(WAYS):
                turns[way].append(run(way, ranks, arguments.build, data, arguments.epochs))
        for line in lines(ranks, turns):
            print(line, flush=True)


def positive(text):
    number = int(text)
    if number < 1:
        raise ValueError
    return number


def numbers(text):
    return [positive(part) for part in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=positive, default=5)
    parser.add_argument("--ranks", type=numbers, default=[1, 2, 4])
    parser.add_argument("--images", type=positive, default=2560, help="for training; a multiple of 5 and of the batch")
    parser.add_argument("--epochs", type=positive, default=3)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    arguments = parser.parse_args()
    if not (PEER / ".complete").exists():
        print("PyTorch's side is missing: ./lockstep setup --peer makes it")
        sys.exit(77)
    for program in ("cli/lockstep", "examples/cifar10"):
        if not (arguments.build / program).exists():
            print(f"{arguments.build / program}: run ninja -C {arguments.build} lockstep examples", file=sys.stderr)
            sys.exit(2)
    with tempfile.TemporaryDirectory() as data:
        made = [arguments.build / "examples" / "cifar10", "--data", data, "--make", str(arguments.images // 5)]
        subprocess.run(list(map(str, made)), check=True)
        print(f"medians of {arguments.rounds} alternating rounds of {arguments.epochs} epochs of {arguments.images} "
              f"images, batches of {BATCH} over all ranks; {len(os.sched_getaffinity(0))} cores")
        try:
            measure(arguments, data)
        except RuntimeError as error:
            print(f"cifar10.py: {error}", file=sys.stderr)
            sys.exit(2)


if __name__ == "__main__":
    main()
