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
import pathlib
import sys

import faults
import mutant
from tree import NO_FAILURE, ROOT, Tree


def expectations(planted, backends):
    """The expectations that a mutant states for these backends."""
    return [caught for caught in planted.caught_by if caught.backend in backends]


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
        by_seed = {seed: tree.run(places, seed, shrinks=page is not None) for seed in seeds}
    finally:
        tree.restore()
    lines, caught = [], True
    for seed, each in [(seed, each) for seed in seeds for each in wanted]:
        outcome = by_seed[seed][each.scenario, each.backend]
        # A world that hangs on GPUs may do so for reasons of its own.
        unclear = NO_FAILURE + (() if each.backend in mutant.BACKENDS else ("hang",))
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
    backends, seeds = (arguments.backend,) if arguments.backend else mutant.BACKENDS, arguments.seeds.split(",")
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
    for (scenario, backend), outcome in tree.run(places, seeds[0]).items():
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
