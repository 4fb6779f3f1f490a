#!/usr/bin/env python3
"""Cases a second of one small DDP case in our tiers beside PyTorch's own test harnesses, in one run.

usage: beside_pytorch.py [--rounds N] [--cases N] [--subject SUBJECT] [--build FOLDER]

The case: a network of 8-16-4, wrapped, and one averaged step, in a world of two; over Gloo where the
ranks are processes. A tier and the harness that makes worlds in the same way take turns, since what a
machine does next door changes by the second: only their ratio means anything. Whatever serves
many cases (imports, the processes of MultiProcContinuousTest, a warm world) is made before the time is
taken; the last line is of a whole class instead, as a test run has it: on PyTorch's side the time begins
with the class's processes and ends when they have, its runner's own import left out; on ours it is all
of a program's life. Our side does more: it records the gradients and judges every case, where PyTorch's
asserts nothing. With --subject pytorch our tiers wrap the network in PyTorch's own DistributedDataParallel, as
PyTorch's harnesses do; without it, in ours.

Any Python starts it; ./lockstep setup --peer makes the one that runs PyTorch's side. Exit 77: it has
not been made; 2: bench_worlds has not been built, or what is called does not work.
"""

import argparse
import contextlib
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections import namedtuple

ROOT = pathlib.Path(__file__).resolve().parent.parent
PEER = ROOT / ".venv-peer"

# Tiers whose worlds are made in the same way, and how many cases of each take a second or a few.
Pair = namedtuple("Pair", "tier tier_cases harness harness_cases")
PAIRS = [
    Pair("cold", 200, "MultiProcessTestCase", 2),
    Pair("warm", 1000, "MultiProcContinuousTest", 300),
    Pair("sim", 1000, "MultiThreadedTestCase", 300),
]
WHOLE_CLASS = Pair("warm", 200, "MultiProcContinuousTest", 200)


@contextlib.contextmanager
def errors_kept():
    """Every process that PyTorch starts warns of the same: that is shown only where something fails."""
    real = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            yield
        except BaseException:
            file.seek(0)
            os.write(real, file.read()[-5000:])
            raise
        finally:
            os.dup2(real, 2)
            os.close(real)


def run_tier(program, tier, cases):
    """The result of a turn of bench_worlds: see run_one_tier in bench/worlds.cpp. `program` is it, with its subject."""
    program, subject = program
    command = [program, "--tier", tier, "--cases", str(cases), "--subject", subject]
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))} ended with {done.returncode}")
    return json.loads(done.stdout)


def compare(pair, program, rounds, run):
    """[(the tier's cases a second, the harness's)], a round each."""
    rates = []
    for _ in range(rounds):
        ours = run_tier(program, pair.tier, pair.tier_cases)["cases_per_second"]
        with errors_kept():
            rates.append((ours, pair.harness_cases / run(pair.harness, pair.harness_cases)))
    return rates


def compare_classes(pair, program, rounds, run_class):
    """As compare() does, with all that has to be made for the cases."""
    rates = []
    for _ in range(rounds):
        start = time.perf_counter()
        run_tier(program, pair.tier, pair.tier_cases)
        ours = pair.tier_cases / (time.perf_counter() - start)
        with errors_kept():
            rates.append((ours, pair.harness_cases / run_class(pair.harness_cases)))
    return rates


def line(pair, rates, of_what=""):
    ratios = [ours / theirs for ours, theirs in rates]
    ours, theirs = (statistics.median(column) for column in zip(*rates))
    return (f"{pair.tier} is {statistics.median(ratios):.1f} x {pair.harness}{of_what}   "
            f"{ours:.1f} and {theirs:.2f} cases/s   ratios {min(ratios):.1f} to {max(ratios):.1f}   "
            f"{pair.tier_cases} and {pair.harness_cases} cases a round")


def measure(arguments, program):
    # Our side's Gloo is on loopback too.
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    with errors_kept():
        import pytorch_harnesses as harnesses  # Takes seconds, and only this Python can.
        error = harnesses.mend_threads()
        harnesses.run("MultiProcContinuousTest", 1)  # makes its world
    libtorch = run_tier(program, "sim", 1)["libtorch"]
    print(f"subject {arguments.subject}; medians of {arguments.rounds} alternating rounds, world {harnesses.WORLD}, one case at a time; "
          f"{len(os.sched_getaffinity(0))} cores · LibTorch {libtorch} · PyTorch {harnesses.torch.__version__} · "
          f"Python {platform.python_version()}")
    if error:
        print(f"ranks of MultiThreadedTestCase end with {error}; timed with that mended")
    try:
        for pair in PAIRS:
            if arguments.cases:
                pair = pair._replace(tier_cases=arguments.cases, harness_cases=arguments.cases)
            print(line(pair, compare(pair, program, arguments.rounds, harnesses.run)), flush=True)
        pair = WHOLE_CLASS
        if arguments.cases:
            pair = pair._replace(tier_cases=arguments.cases, harness_cases=arguments.cases)
        rates = compare_classes(pair, program, arguments.rounds, harnesses.run_class)
        print(line(pair, rates, ", a whole class from nothing"))
    finally:
        with errors_kept():
            harnesses.end_class()


def positive(text):
    number = int(text)
    if number < 1:
        raise ValueError
    return number


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=positive, default=5)
    parser.add_argument("--cases", type=positive, help="of every tier and harness in a round (what takes seconds)")
    parser.add_argument("--subject", default="lockstep", choices=["lockstep", "pytorch"], help="whose DDP our tiers wrap")
    parser.add_argument("--build", type=pathlib.Path,
                        default=ROOT / "build" / os.environ.get("LOCKSTEP_PRESET", "release"))
    arguments = parser.parse_args()
    if not (PEER / ".complete").exists():
        print("skipped: there is no PyTorch to compare with; ./lockstep setup --peer makes it (.venv-peer, 4.7 GB)")
        return 77
    program = arguments.build / "bench" / "bench_worlds"
    if not program.exists():
        print(f"beside_pytorch.py: there is no {program}: run ./lockstep build", file=sys.stderr)
        return 2
    if pathlib.Path(sys.prefix).resolve() != PEER.resolve():
        python = PEER / "bin" / "python"
        os.execv(python, [python, __file__, *sys.argv[1:]])
    try:
        measure(arguments, (program, arguments.subject))
    except RuntimeError as error:
        print(f"beside_pytorch.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
