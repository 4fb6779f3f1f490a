#!/usr/bin/env python3
"""What the recorders add to a training step, and how fast `judge` reads what they wrote.

usage: recorder.py [--build BUILD] [--rounds N] [--steps N]

Times are of the processor, in one thread, of a step of a small convolutional network on 32 images. In Python a step with
and one without the recorder are timed in processes by turns, with PyTorch of .venv-peer; in C++ in one process
(bench_recorder, with a history of many small steps for `judge`).
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PYTHON = os.path.join(ROOT, ".venv-peer", "bin", "python")
SMALL_STEPS = 20000
WARM_UP = 3


def steps_in_python(folder, steps):
    """The median milliseconds of a step."""
    sys.path.insert(0, os.path.join(ROOT, "recorder", "python"))
    import lockstep_recorder
    lockstep_recorder.start(folder)
    import torch
    from torch import nn
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    ddp = nn.parallel.DistributedDataParallel(nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64 * 8 * 8, 128), nn.ReLU(), nn.Linear(128, 10)))
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.01, momentum=0.9)
    data, times = torch.randn(32, 3, 32, 32), []
    for _ in range(WARM_UP + steps):
        before = time.process_time()
        optimizer.zero_grad()
        ddp(data).square().mean().backward()
        optimizer.step()
        times.append(1e3 * (time.process_time() - before))
    return statistics.median(times[WARM_UP:])


def timed(command):
    """What it printed, and the seconds it took of the processor."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    said = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return said, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def say(name, without, recorded):
    print("%-8s %7.2f ms a step, %7.2f ms recorded: %+.1f %%" % (name, without, recorded, 100 * (recorded / without - 1)))


def main(build, rounds, steps):
    lockstep, bench = os.path.join(build, "cli", "lockstep"), os.path.join(build, "bench", "bench_recorder")
    for program in (lockstep, bench):
        if not os.path.exists(program):
            sys.exit("recorder.py: there is no %s: ninja -C %s lockstep bench_recorder makes it" % (program, build))
    with tempfile.TemporaryDirectory(prefix="lockstep bench ") as folder:
        small = os.path.join(folder, "small")
        subprocess.run([bench, small, "small", str(SMALL_STEPS)], stdout=subprocess.DEVNULL, check=True)
        size = sum(entry.stat().st_size for entry in os.scandir(small)) / 1e6
        _, seconds = timed([lockstep, "judge", small, "-q"])
        # By a process of its own, since the memory of children is that of the largest so far.
        peak = subprocess.run([sys.executable, "-c", "import resource, subprocess, sys; subprocess.run(sys.argv[1:], stdout=-3); "
                               "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e3)",
                               lockstep, "judge", small, "-q"], stdout=subprocess.PIPE, text=True, check=False).stdout
        print("judge    %.1f MB of history in %.2f s: %.1f MB/s, at most %.0f MB of memory" %
              (size, seconds, size / seconds, float(peak)))
        rows = []
        for number in range(rounds):
            said, _ = timed([bench, os.path.join(folder, "c%d" % number), "image", str(steps)])
            rows.append(json.loads(said))
        say("C++", *(statistics.median(row[key] for row in rows) for key in ("without", "with")))
        if not os.path.exists(PYTHON):
            print("Python   skipped: there is no .venv-peer: ./lockstep setup --peer makes it")
            return
        times = ([], [])
        for number in range(rounds):
            for recorded in (0, 1):
                target = os.path.join(folder, "p%d" % number) if recorded else ""
                said, _ = timed([PYTHON, os.path.abspath(__file__), "--steps", str(steps), "--in-python", target])
                times[recorded].append(float(said))
        say("Python", *(statistics.median(each) for each in times))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "release"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--in-python", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.in_python is not None:
        os.environ.pop("LOCKSTEP_RECORD", None)
        print(steps_in_python(given.in_python, given.steps))
    else:
        main(given.build, given.rounds, given.steps)
