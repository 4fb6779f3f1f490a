#!/usr/bin/env python3
"""Measures what the recorders add to a training step, and how fast `judge` reads what they wrote.

usage: recorder.py [--build BUILD] [--rounds N] [--steps N] [--model NAME]...

Times are of the processor, in one thread. In Python, with PyTorch of .venv-peer, models from 1,700 to 124 million parameters
are trained twice in one process, a recorded step beside one that is not; the median of the pairs counts. With a large
model the first steps are digested, and then one of seven. In C++ it is a small convolutional network on 32 images, in one process
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
WARM_UP = 3  # Steps.


def residual_network(nn):
    """As ResNet-18: 11 million parameters."""
    class Block(nn.Module):
        def __init__(self, before, after, stride):
            super().__init__()
            self.one, self.two = nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.Conv2d(after, after, 3, 1, 1, bias=False)
            self.norm_one, self.norm_two = nn.BatchNorm2d(after), nn.BatchNorm2d(after)
            self.skip = nn.Conv2d(before, after, 1, stride, bias=False) if stride > 1 else nn.Identity()

        def forward(self, x):
            return nn.functional.relu(self.norm_two(self.two(nn.functional.relu(self.norm_one(self.one(x))))) + self.skip(x))
    widths = (64, 64, 64, 128, 128, 256, 256, 512, 512)
    blocks = [Block(before, after, 2 if after > before else 1) for before, after in zip(widths, widths[1:])]
    return nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1), *blocks,
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000))


def language_model(nn, width, layers):
    """As GPT-2: its words are also those that it predicts."""
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(50257, width)
            self.blocks = nn.ModuleList(nn.TransformerEncoderLayer(width, width // 64, 4 * width, 0.0, "gelu", batch_first=True,
                                                                   norm_first=True) for _ in range(layers))

        def forward(self, x):
            x = self.words(x)
            for block in self.blocks:
                x = block(x)
            return x @ self.words.weight.T
    return Model()


# Name -> the model, its input, and its optimizer.
MODELS = {
    "mlp of 1,700": lambda torch, nn: (nn.Sequential(nn.Linear(16, 48), nn.ReLU(), nn.Linear(48, 18)), torch.randn(8, 16), "SGD"),
    "resnet of 11 M": lambda torch, nn: (residual_network(nn), torch.randn(8, 3, 64, 64), "SGD"),
    "gpt of 31 M": lambda torch, nn: (language_model(nn, 384, 6), torch.randint(50257, (2, 64)), "AdamW"),
    "gpt of 124 M": lambda torch, nn: (language_model(nn, 768, 12), torch.randint(50257, (2, 64)), "AdamW"),
}


def steps_in_python(folder, steps, name):
    """Milliseconds of steps without the recorder, and what it adds in percent: to the first steps, to later ones that digest a
    large model, to those that do not, and on average."""
    sys.path.insert(0, os.path.join(ROOT, "recorder", "python"))
    import lockstep_recorder
    lockstep_recorder.start(folder, rank=0, world=1)
    import torch
    from torch import nn
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    from lockstep_recorder import _records, _state
    history, trainings = _state.recorder.history, []

    def switch(is_recorded):
        history.process = os.getpid() if is_recorded else -1  # Of another process nothing is recorded.

    for is_recorded in (False, True):
        switch(is_recorded)
        model, data, kind = MODELS[name](torch, nn)
        ddp = nn.parallel.DistributedDataParallel(model)
        options = {"momentum": 0.9} if kind == "SGD" else {}
        trainings.append((is_recorded, ddp, data, getattr(torch.optim, kind)(ddp.parameters(), lr=1e-4, **options)))

    def step(is_recorded, ddp, data, optimizer):
        switch(is_recorded)
        before = time.process_time()
        optimizer.zero_grad()
        ddp(data).square().mean().backward()
        optimizer.step()
        return 1e3 * (time.process_time() - before)

    often, seldom = _records.OFTEN, _records.SELDOM
    pairs = [[step(*training) for training in trainings] for _ in range(2 * seldom + steps // seldom * seldom)]
    first, later = pairs[WARM_UP:often], pairs[2 * seldom:]

    def added(pairs):
        """By the median of pairs of steps, since other programs add to some."""
        return 100 * (statistics.median(recorded / plain for plain, recorded in pairs) - 1)
    due, others = (added([pair for at, pair in enumerate(later) if (at % seldom == 0) == is_due]) for is_due in (True, False))
    return [statistics.median(plain for plain, _ in later), added(first), due, others, (due + (seldom - 1) * others) / seldom]


def timed(command):
    """The output of a command, and the processor's seconds that it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    said = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return said, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def say(name, without, recorded):
    print("%-8s %7.2f ms a step, %7.2f ms recorded: %+.1f %%" % (name, without, recorded, 100 * (recorded / without - 1)))


def main(build, rounds, steps, models):
    if not models:
        measure_build(build, rounds, steps)
    if not os.path.exists(PYTHON):
        print("Python   skipped: there is no .venv-peer: ./lockstep setup --peer makes it")
        return
    with tempfile.TemporaryDirectory(prefix="lockstep bench ") as folder:
        for name in models or MODELS:
            said, _ = timed([PYTHON, os.path.abspath(__file__), "--steps", str(steps), "--model", name, "--in-python",
                             os.path.join(folder, name)])
            print("%-15s %8.2f ms a step; recorded: first %+.1f %%, then where it is digested %+.1f %%, where not %+.1f %%, "
                  "on average %+.1f %%" % (name, *json.loads(said)), flush=True)


def measure_build(build, rounds, steps):
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


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "release"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--model", action="append", default=[], choices=MODELS)
    parser.add_argument("--in-python", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.in_python is not None:
        os.environ.pop("LOCKSTEP_RECORD", None)
        print(json.dumps(steps_in_python(given.in_python, given.steps, given.model[0])))
    else:
        main(given.build, given.rounds, given.steps, given.model)
