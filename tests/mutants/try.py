#!/usr/bin/env python3
"""Plants each mistake of this folder and sees whether the scenario it names catches it.

usage: try.py [--jobs N] [--tree FOLDER] [--preset NAME] [--backend NAME] [--faults FILE] [--seeds SEED,...] [--cases N] [NAME...]

A mutant is a mistake in ddp/, or in a program of scenarios/ as a user would make it; mutant.py says
what its file holds. What a mutant says of backends that need a GPU is tried with --backend alone, and
then nothing else: mutants that name no such backend are left out. Mutants are planted one by one in a
clone of the committed tree, in FOLDER (build/mutants), where the program without a mutant must pass
first. Exit 0: every mutant was caught as it says; 1: one was not, or the program without one fails,
or one does not build.

With --faults each failure is shrunk, and FILE, docs/faults.md say, gets the lines of the mutants that were caught;
those of mutants that were not tried stay. The tree may be one that is built already, and --preset another.

With --seeds a mutant has to be caught from each of them, and with --cases among so many drawn cases of a scenario.
"""

import argparse
import dataclasses
import json
import pathlib
import re
import subprocess
import sys

import faults
import mutant

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BACKENDS = mutant.BACKENDS
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
    """The expectations that a mutant states for these backends."""
    return [caught for caught in planted.caught_by if caught.backend in backends]


def libtorch_of(cache):
    """For a clone: the LibTorch that this tree's own build was told of, or found."""
    found = re.search(r"^LOCKSTEP_TORCH:\w+=(.+)$", cache.read_text(), re.MULTILINE) if cache.exists() else None
    return [f"-DLOCKSTEP_TORCH={found[1]}"] if found else []


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The result of one scenario in a run."""

    result: str
    pattern: str
    text: str
    seconds: float
    failure: dict  # as in run.json; empty where there is none

    @classmethod
    def of(cls, result):
        first = (result["findings"] or [{"pattern": "", "text": ""}])[0]
        return cls(result["result"], first["pattern"], first["text"].split("\n")[0], result["seconds"],
                   result.get("failure", {}))


class Tree:
    """A clone in which mutants are planted, built and run, one after the other."""

    def __init__(self, folder, jobs, preset, needs_nccl, cases):
        self.folder, self.jobs, self.built = folder, jobs, folder / "build" / preset
        self.how_many = ("--cases", cases) if cases else ()
        self.targets = ["lockstep", "lockstep_harness_nccl"] if needs_nccl else ["lockstep"]
        if not (folder / ".git").exists():
            must("git", "clone", "--quiet", ROOT, folder)
            (folder / ".venv").symlink_to(ROOT / ".venv")
        must("git", "-C", folder, "fetch", "--quiet", ROOT, "HEAD")
        must("git", "-C", folder, "reset", "--quiet", "--hard", "FETCH_HEAD")
        must("cmake", "--preset", preset, *libtorch_of(ROOT / "build/release/CMakeCache.txt"),
             *(["-DLOCKSTEP_NCCL=ON"] if needs_nccl else []), cwd=folder)

    def build(self):
        done = run("ninja", "-C", self.built, "-j", self.jobs, *self.targets)
        return "" if done.returncode == 0 else done.stdout[-1500:]

    def play(self, places, seed, shrinks=False):
        """{(scenario, backend): Outcome} of a run of these."""
        results = {}
        for backend in sorted({backend for _, backend in places}):
            scenarios = sorted({scenario for scenario, at in places if at == backend})
            results |= {(name, backend): found for name, found in self.play_on(backend, scenarios, seed, shrinks).items()}
        return results

    def play_on(self, backend, scenarios, seed, shrinks):
        out = self.folder / "build/run"
        report = self.folder / "build/run.json"
        report.unlink(missing_ok=True)
        how = ("--tier", BACKENDS[backend], "--timeout", "10") if backend in BACKENDS else ON_GPUS
        how += () if backend == "memory" else ("--backend", backend)
        done = run(self.built / "cli/lockstep", "run", *scenarios, "--seed", seed, "-q", "--out", out,
                   "--json", report, *how, *self.how_many, *(() if shrinks else ("--no-shrink",)), cwd=self.folder)
        run("rm", "-rf", out)
        if not report.exists():
            sys.exit(f"try.py: the run wrote no report:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        return {result["scenario"]: Outcome.of(result) for result in json.loads(report.read_text())["results"]}

    def restore(self):
        must("git", "-C", self.folder, "checkout", "--quiet", ".")


def tried(tree, planted, backends, seeds, page):
    """Lines that say what became of a mutant, and whether it was caught as it says. `page` gets what was caught from the
    first seed."""
    wanted = expectations(planted, backends)
    planted.plant(tree.folder)
    try:
        trouble = tree.build()
        if trouble:
            return [f"{planted.name}: does not build\n{trouble}"], False
        places = [(each.scenario, each.backend) for each in wanted]
        by_seed = {seed: tree.play(places, seed, shrinks=page is not None) for seed in seeds}
    finally:
        tree.restore()
    lines, caught = [], True
    for seed, each in [(seed, each) for seed in seeds for each in wanted]:
        outcome = by_seed[seed][each.scenario, each.backend]
        # A world that hangs on GPUs may do so for reasons of its own.
        unclear = ("pass", "skip", "inconclusive") + (() if each.backend in BACKENDS else ("hang",))
        as_said = outcome.result not in unclear and (not each.pattern or each.pattern == outcome.pattern)
        caught = caught and as_said
        word = "caught" if as_said else "ESCAPED" if outcome.result == "pass" else "MISNAMED"
        place = faults.place_of(each)
        lines.append(f"{word:9} {planted.name:42} {place:40} {outcome.result} {outcome.pattern}"
                     + (f" seed {seed}" if len(seeds) > 1 else "") + f"\n          {outcome.text}")
        if page and as_said and seed == seeds[0]:
            page.add(planted, place, outcome)
    return lines, caught


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", default="2")
    parser.add_argument("--tree", type=pathlib.Path, default=ROOT / "build/mutants")
    parser.add_argument("--preset", default="dev")
    parser.add_argument("--backend")
    parser.add_argument("--faults", type=pathlib.Path)
    parser.add_argument("--seeds", default="7")
    parser.add_argument("--cases")
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    backends, seeds = (arguments.backend,) if arguments.backend else BACKENDS, arguments.seeds.split(",")
    mutants = mutant.load_all()
    count = len(mutants)
    unknown = set(arguments.names) - {each.name for each in mutants}
    if unknown:
        sys.exit(f"try.py: no mutant is called {', '.join(sorted(unknown))}")
    mutants = [each for each in mutants if (not arguments.names or each.name in arguments.names)
               and expectations(each, backends)]
    if not mutants:
        sys.exit(f"try.py: none of these mutants says that it is caught on {' or '.join(backends)}")
    page = faults.Page.read(arguments.faults) if arguments.faults else None
    tree = Tree(arguments.tree, arguments.jobs, arguments.preset, "nccl" in backends, arguments.cases)
    trouble = tree.build()
    if trouble:
        sys.exit(f"try.py: the tree without a mutant does not build:\n{trouble}")
    places = sorted({(each.scenario, each.backend) for planted in mutants for each in expectations(planted, backends)})
    for (scenario, backend), outcome in tree.play(places, seeds[0]).items():
        if outcome.result != "pass":
            sys.exit(f"try.py: {scenario} on {backend} does not pass without a mutant: {outcome.result}: {outcome.text}")
    caught = 0
    for planted in mutants:
        lines, as_said = tried(tree, planted, backends, seeds, page)
        if page:
            page.write(arguments.faults, count)
        print("\n".join(lines), flush=True)
        caught += as_said
    tree.build()  # So that no program with a mistake stays where somebody may take it for a right one.
    print(f"{caught} of {len(mutants)} caught as they say")
    return 0 if caught == len(mutants) else 1


if __name__ == "__main__":
    sys.exit(main())
