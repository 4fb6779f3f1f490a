#!/usr/bin/env python3
"""Measures what data parallelism adds to a training step: ours, c10d::Reducer and Python's DDP, in one run.

usage: ddp_step.py [--rounds N] [--models 8k,6m,25m,small] [--cured] [--quick] [--build FOLDER]
                   [--device cpu|cuda] [--hooks]

World 2, Gloo over loopback, one thread a rank. A step is zero_grad, forward on a batch of 32, the sum,
backward; no optimizer. Its overhead is the time of a step with DDP less that of the same step without, in
the same language, while the peer computes next door as well. Each way has two processes of its own: ours,
c10d::Reducer in C++, torch.nn.parallel.DistributedDataParallel in Python, and a step without any in both
languages. All take turns, and every other round backwards, since what a machine does next door changes by
the second. A turn makes its model anew, warms it up (buckets are laid out anew once) and times some steps. A
ratio is the median of the rounds' ratios, with the middle half of them behind it; below 1 ours is faster.
Processor time (all threads, Gloo's too) says more than time where other programs want the same cores.

Every process keeps the memory that it has freed (KEEPING). As glibc comes, it gives gradients back to the
system after one step and faults them in again at the next, or does not, by what happens to lie behind them
on the heap: up to 30 ms of a step of 25 M parameters, with and without DDP, in any language. And what one
way leaves on the heap must not decide that for the next, so no two share a process.

Memory: the most that a rank of fresh processes had resident, less what one without DDP had, with glibc as it
comes.

--device cuda: a world of one on one GPU, over NCCL: what the reducer's own work adds, since nothing travels. A
step's time is then that of all steps of a turn, to the end of the last kernel, by their number. No memory.

--hooks: each built-in communication hook beside ours without one, in place of the rivals, and the bytes that
a rank sends in a step, TCP's own included, as the loopback device counts them.

--cured: without the stalls of Gloo's event loop (Note [Gloo's stall] in harness/worlds/gloo/gloo.h), on every
side alike: what users of none of them have. --quick: few steps, to see whether it works.

Any Python starts it. ./lockstep setup --peer makes the one that runs PyTorch's side, or LOCKSTEP_PYTHON names it;
without one that side is left out. Exit 2: bench_ddp_step has not been built (./lockstep build), or a rank failed.
"""

import argparse
import collections
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
MADE = ROOT / ".venv-peer"
PEER = os.environ.get("LOCKSTEP_PYTHON") or (MADE / "bin" / "python" if (MADE / ".complete").exists() else None)

# How many steps of each make a turn of one or two seconds.
Model = collections.namedtuple("Model", "name what steps")
MODELS = [
    Model("8k", "8 k parameters (64-64-64)", 400),
    Model("6m", "6.3 M parameters (1024 x 7 layers)", 40),
    Model("25m", "25 M parameters (2048 x 7 layers)", 12),
    Model("small", "1,000 parameters of 16 numbers", 40),
]
OURS = ["lockstep", "lockstep_view", "lockstep_batched"]
C10D = ["c10d", "c10d_view"]
HOOKS = ["hook:" + name for name in ("all_reduce", "fp16_compress", "bf16_compress", "quantize", "power_sgd", "noop")]
PYTHON = ["python", "python_view"]
NAMES = {"lockstep": "lockstep", "lockstep_view": "lockstep, views", "lockstep_batched": "lockstep, batched copy",
         "c10d": "c10d::Reducer", "c10d_view": "c10d::Reducer, views",
         "python": "Python's DDP", "python_view": "Python's DDP, views"}
NAMES.update({hook: hook[5:] + " hook" for hook in HOOKS})
# The rivals of each of ours; PyTorch of this version copies no batches.
RIVALS = {"lockstep": ["c10d", "python"], "lockstep_view": ["c10d_view", "python_view"],
          "lockstep_batched": ["c10d", "python"], **{hook: ["lockstep"] for hook in HOOKS}}
SHORT = {"lockstep": "no hook", "c10d": "c10d", "c10d_view": "c10d, views", "python": "Python", "python_view": "Python, views"}

KEEPING = {"MALLOC_TRIM_THRESHOLD_": str(2 ** 33), "MALLOC_MMAP_THRESHOLD_": str(2 ** 32),
           "MALLOC_TOP_PAD_": str(2 ** 26)}
LANGUAGES = {"cpp": "C++", "python": "Python"}
CLOCKS = {"wall": "time of a step", "processor": "processor time of a rank for a step"}


def bytes_on_loopback():
    for line in pathlib.Path("/proc/net/dev").read_text().splitlines():
        if line.strip().startswith("lo:"):
            return int(line.split(":")[1].split()[0])
    return 0


class World:
    """Processes that run turns together."""

    def __init__(self, size, command, environment=None):
        self.folder = tempfile.TemporaryDirectory(prefix="lockstep-bench-")
        self.ranks = []
        for rank in range(size):
            arguments = [str(each).format(rank=rank, file=self.folder.name + "/store") for each in command]
            self.ranks.append(subprocess.Popen(arguments, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                               env={**os.environ, **(environment or {})}))
        self.about = [self.answer(rank) for rank in self.ranks][0]

    def __enter__(self):
        return self

    def __exit__(self, failure, *_):
        for rank in self.ranks:
            rank.stdin.close()
            if failure:
                rank.kill()
        for rank in self.ranks:
            rank.wait()
            rank.stdout.close()
        self.folder.cleanup()

    def answer(self, rank):
        line = rank.stdout.readline()
        if not line:
            raise RuntimeError(f"a rank ended with {rank.wait()}: {' '.join(map(str, rank.args))}")
        return json.loads(line)

    def run(self, way, model, steps):
        """The average of the ranks' answers, and the bytes that one sent, where nothing else uses the loopback device."""
        before = bytes_on_loopback()
        for rank in self.ranks:
            rank.stdin.write(f"{way} {model.name} {steps}\n")
            rank.stdin.flush()
        answers = [self.answer(rank) for rank in self.ranks]
        means = {key: statistics.mean(answer[key] for answer in answers) for key in answers[0]}
        return {**means, "bytes": (bytes_on_loopback() - before) / len(self.ranks)}


class Sides:
    """The ways there are to run, by language; Python's where it can be had."""

    def __init__(self, build, cured, device="cpu", hooks=False):
        self.program, self.library = build / "bench" / "bench_ddp_step", build / "bench" / "libbench_stall_cure.so"
        self.cured, self.device, self.size = cured, device, 2 if device == "cpu" else 1
        self.ways = {"cpp": ["none"] + (["lockstep"] + HOOKS if hooks else OURS + C10D)}
        if not hooks and PEER:
            self.ways["python"] = ["none"] + PYTHON

    def start(self, side, allocator):
        if side == "cpp":
            return World(self.size, [self.program, "{rank}", "{file}", "cured" if self.cured else "as_it_is",
                                     self.device], allocator)
        environment = {"GLOO_SOCKET_IFNAME": "lo", **allocator}
        if self.cured:
            environment["LD_PRELOAD"] = str(self.library)
        return World(self.size, [PEER, ROOT / "bench" / "ddp_step_in_pytorch.py", "{rank}", "{file}",
                                 self.device], environment)


def overheads(worlds, ways, model, rounds, steps):
    """{(clock, way): [seconds that a round added to the step without]}, {(clock, side): [of that step]}."""
    added, bare = collections.defaultdict(list), collections.defaultdict(list)
    turns = [(side, way) for side in ways for way in ways[side]]
    for number in range(rounds):
        answers = {}
        for side, way in turns if number % 2 == 0 else reversed(turns):
            answers[side, way] = worlds[side, way].run(way, model, steps)
        for clock in CLOCKS:
            for side, way in turns:
                without = answers[side, "none"][clock]
                if way == "none":
                    bare[clock, side].append(without)
                else:
                    added[clock, way].append(answers[side, way][clock] - without)
    return added, bare


def ratio(ours, theirs):
    """The ratio of each round: its median and its middle half. A rival whose overhead drowns in noise has none."""
    ratios = sorted(mine / its if its > 0 else float("inf") for mine, its in zip(ours, theirs))
    return statistics.median(ratios), ratios[len(ratios) // 4], ratios[-1 - len(ratios) // 4]


def lines_of_times(model, added, bare):
    """The lines about one model."""
    yield model.what
    for clock in CLOCKS:
        without = ", ".join(f"{LANGUAGES[side]} {statistics.median(bare[clock, side]) * 1e3:.3f} ms"
                            for which, side in bare if which == clock)
        yield f"  {CLOCKS[clock]}, without DDP {without}; with it, more:"
        for way in (way for which, way in added if which == clock):
            line = f"    {NAMES[way]:23s}{statistics.median(added[clock, way]) * 1e3:9.3f} ms"
            for rival in RIVALS.get(way, []):
                if (clock, rival) in added:
                    middle, low, high = ratio(added[clock, way], added[clock, rival])
                    line += f"   {middle:.2f} x {SHORT[rival]} ({low:.2f} to {high:.2f})"
            yield line


def peaks(sides, model, steps):
    """{side: bytes without DDP} and {way: bytes that it adds}, each from processes of its own."""
    bare, added = {}, {}
    for side, ways in sides.ways.items():
        for way in ways:
            with sides.start(side, {}) as world:
                peak = world.run(way, model, steps)["peak_bytes"]
            if way == "none":
                bare[side] = peak
            else:
                added[way] = peak - bare[side]
    return bare, added


def text_of_memory(model, bare, added):
    mib = 2 ** 20
    without = ", ".join(f"{LANGUAGES[side]} {bare[side] / mib:.0f} MiB" for side in bare)
    yield f"peak memory of a rank, {model.what}: without DDP {without}; with it, more:"
    for way, number in added.items():
        line = f"  {NAMES[way]:23s}{number / mib:8.0f} MiB"
        for rival in RIVALS.get(way, []):
            if rival in added:
                line += f"   {number / added[rival]:.2f} x {SHORT[rival]}"
        yield line


def text_of_bytes(worlds, ways, model, steps):
    """Two turns that differ in their number of steps alone: what they differ in, a step sends."""
    sent = {}
    for way in ways[1:]:
        few, many = (worlds["cpp", way].run(way, model, count)["bytes"] for count in (steps, 3 * steps))
        sent[way] = (many - few) / (2 * steps)
    return "  sent by a rank in a step: " + ", ".join(
        f"{NAMES[way]} {sent[way] / 1e6:.3f} MB ({sent[way] / sent['lockstep']:.2f} x)" for way in sent)


def measure(arguments, sides):
    rounds = 1 if arguments.quick else arguments.rounds
    worlds = {}
    try:
        for side, ways in sides.ways.items():
            for way in ways:
                worlds[side, way] = sides.start(side, KEEPING).__enter__()
        about = {key: value for world in worlds.values() for key, value in world.about.items()}
        python = (f" · PyTorch {about['pytorch']} · Python {about['python']}" if "python" in sides.ways else
                  "" if arguments.hooks else " · without Python's DDP (./lockstep setup --peer makes its environment)")
        cured = ", ".join(f"{LANGUAGES[side]} {'cured' if worlds[side, 'none'].about['cured'] else 'as it is'}"
                          for side in sides.ways)
        where = ("world 2, Gloo on loopback" if sides.device == "cpu" else
                 f"world 1, NCCL {about['nccl']} on one GPU")
        stall = f" · Gloo's stall: {cured}" if sides.device == "cpu" else ""
        print(f"medians of {rounds} alternating rounds, {where}, one thread a rank; {len(os.sched_getaffinity(0))} cores · "
              f"LibTorch {about['libtorch']}{python}{stall} · freed memory is kept")
        for model in arguments.models:
            steps = 2 if arguments.quick else model.steps
            for line in lines_of_times(model, *overheads(worlds, sides.ways, model, rounds, steps)):
                print(line, flush=True)
            if arguments.hooks:
                print(text_of_bytes(worlds, sides.ways["cpp"], model, steps), flush=True)
    finally:
        for world in worlds.values():
            world.__exit__(sys.exc_info()[0])
    if sides.device == "cuda":
        return
    largest = next(model for model in MODELS if model.name == ("8k" if arguments.quick else "25m"))
    for line in text_of_memory(largest, *peaks(sides, largest, 3)):
        print(line, flush=True)


def positive(text):
    number = int(text)
    if number < 1:
        raise ValueError
    return number


def models(text):
    by_name = {model.name: model for model in MODELS}
    unknown = set(text.split(",")) - set(by_name)
    if unknown:
        raise argparse.ArgumentTypeError(f"no model is called {', '.join(sorted(unknown))}: {', '.join(by_name)}")
    return [by_name[name] for name in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=positive, default=11)
    parser.add_argument("--models", type=models, default=MODELS)
    parser.add_argument("--cured", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--hooks", action="store_true")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--build", type=pathlib.Path,
                        default=ROOT / "build" / os.environ.get("LOCKSTEP_PRESET", "release"))
    arguments = parser.parse_args()
    if arguments.cured and arguments.device == "cuda":
        parser.error("--cured is about Gloo, and --device cuda is about NCCL")
    if arguments.hooks and arguments.device == "cuda":
        parser.error("--hooks counts bytes on the loopback device, and a world of one on CUDA sends none")
    sides = Sides(arguments.build, arguments.cured, arguments.device, arguments.hooks)
    if not sides.program.exists():
        print(f"ddp_step.py: there is no {sides.program}: run ./lockstep build", file=sys.stderr)
        return 2
    try:
        measure(arguments, sides)
    except RuntimeError as error:
        print(f"ddp_step.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
