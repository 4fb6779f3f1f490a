#!/usr/bin/env python3
"""Plants each mistake of this folder and sees whether the scenario it names catches it.

usage: try.py [--jobs N] [--tree FOLDER] [--backend NAME] [NAME...]

A mutant is a mistake in ddp/, or in a program of scenarios/ as a user would make it; mutant.py says
what its file holds. What a mutant says of backends that need a GPU is tried with --backend alone, and
then nothing else: mutants that name no such backend are left out. Mutants are planted one by one in a
clone of the committed tree, in FOLDER (build/mutants), where the program without a mutant must pass
first. Exit 0: every mutant was caught as it says; 1: one was not, or the program without one fails,
or one does not build.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys

import mutant

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SEED = "7"
# Where every machine can play.
BACKENDS = ("gloo", "accelerator")
# On GPUs connecting takes seconds, so worlds are kept, and of drawn cases there are fewer.
ON_GPUS = ("--tier", "warm", "--world", "2", "--cases", "40", "--timeout", "120")


def run(*command, **options):
    return subprocess.run([str(part) for part in command], text=True, capture_output=True, **options)


def must(*command, **options):
    done = run(*command, **options)
    if done.returncode != 0:
        sys.exit(f"try.py: {' '.join(map(str, command))} failed:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.stdout


def expectations(planted, backends):
    """What a mutant says of itself on these backends."""
    return [caught for caught in planted.caught_by if caught.backend in backends]


def libtorch_of(cache):
    """For a clone: the LibTorch that this tree's own build was told of, or found."""
    found = re.search(r"^LOCKSTEP_TORCH:\w+=(.+)$", cache.read_text(), re.MULTILINE) if cache.exists() else None
    return [f"-DLOCKSTEP_TORCH={found[1]}"] if found else []


class Tree:
    """A clone in which mutants are planted, built and run, one after the other."""

    def __init__(self, folder, jobs, needs_nccl):
        self.folder, self.jobs = folder, jobs
        self.targets = ["lockstep", "lockstep_harness_nccl"] if needs_nccl else ["lockstep"]
        if not (folder / ".git").exists():
            must("git", "clone", "--quiet", ROOT, folder)
            (folder / ".venv").symlink_to(ROOT / ".venv")
        must("git", "-C", folder, "fetch", "--quiet", ROOT, "HEAD")
        must("git", "-C", folder, "reset", "--quiet", "--hard", "FETCH_HEAD")
        must("cmake", "--preset", "dev", *libtorch_of(ROOT / "build/release/CMakeCache.txt"),
             *(["-DLOCKSTEP_NCCL=ON"] if needs_nccl else []), cwd=folder)

    def build(self):
        done = run("ninja", "-C", self.folder / "build/dev", "-j", self.jobs, *self.targets)
        return "" if done.returncode == 0 else done.stdout[-1500:]

    def play(self, places):
        """{(scenario, backend): (result, pattern, text)} of a run of these."""
        results = {}
        for backend in sorted({backend for _, backend in places}):
            scenarios = sorted({scenario for scenario, at in places if at == backend})
            results |= {(name, backend): found for name, found in self.play_on(backend, scenarios).items()}
        return results

    def play_on(self, backend, scenarios):
        out = self.folder / "build/run"
        report = self.folder / "build/run.json"
        report.unlink(missing_ok=True)
        how = ("--tier", "cold", "--timeout", "10") if backend in BACKENDS else ON_GPUS
        done = run(self.folder / "build/dev/cli/lockstep", "run", *scenarios, "--seed", SEED, "-q", "--no-shrink", "--backend", backend,
                   "--out", out, "--json", report, *how, cwd=self.folder)
        run("rm", "-rf", out)
        if not report.exists():
            sys.exit(f"try.py: the run wrote no report:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        results = {}
        for result in json.loads(report.read_text())["results"]:
            first = (result["findings"] or [{"pattern": "", "text": ""}])[0]
            results[result["scenario"]] = (result["result"], first["pattern"], first["text"].split("\n")[0])
        return results

    def restore(self):
        must("git", "-C", self.folder, "checkout", "--quiet", ".")


def tried(tree, planted, backends):
    """Lines that say what became of a mutant, and whether it was caught as it says."""
    wanted = expectations(planted, backends)
    planted.plant(tree.folder)
    try:
        trouble = tree.build()
        if trouble:
            return [f"{planted.name}: does not build\n{trouble}"], False
        results = tree.play([(each.scenario, each.backend) for each in wanted])
    finally:
        tree.restore()
    lines, caught = [], True
    for each in wanted:
        result, found, text = results[each.scenario, each.backend]
        # A world that hangs on GPUs may do so for reasons of its own.
        unclear = ("pass", "skip", "inconclusive") + (() if each.backend in BACKENDS else ("hang",))
        as_said = result not in unclear and (not each.pattern or each.pattern == found)
        caught = caught and as_said
        word = "caught" if as_said else "ESCAPED" if result == "pass" else "MISNAMED"
        place = each.scenario if each.backend == "gloo" else f"{each.scenario} on {each.backend}"
        lines.append(f"{word:9} {planted.name:42} {place:40} {result} {found}\n          {text}")
    return lines, caught


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", default="2")
    parser.add_argument("--tree", type=pathlib.Path, default=ROOT / "build/mutants")
    parser.add_argument("--backend")
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    backends = (arguments.backend,) if arguments.backend else BACKENDS
    mutants = mutant.load_all()
    unknown = set(arguments.names) - {each.name for each in mutants}
    if unknown:
        sys.exit(f"try.py: no mutant is called {', '.join(sorted(unknown))}")
    mutants = [each for each in mutants if (not arguments.names or each.name in arguments.names)
               and expectations(each, backends)]
    if not mutants:
        sys.exit(f"try.py: none of these mutants says that it is caught on {' or '.join(backends)}")
    tree = Tree(arguments.tree, arguments.jobs, "nccl" in backends)
    trouble = tree.build()
    if trouble:
        sys.exit(f"try.py: the tree without a mutant does not build:\n{trouble}")
    places = sorted({(each.scenario, each.backend) for planted in mutants for each in expectations(planted, backends)})
    for (scenario, backend), (result, _, text) in tree.play(places).items():
        if result != "pass":
            sys.exit(f"try.py: {scenario} on {backend} does not pass without a mutant: {result}: {text}")
    caught = 0
    for planted in mutants:
        lines, as_said = tried(tree, planted, backends)
        print("\n".join(lines), flush=True)
        caught += as_said
    print(f"{caught} of {len(mutants)} caught as they say")
    return 0 if caught == len(mutants) else 1


if __name__ == "__main__":
    sys.exit(main())
