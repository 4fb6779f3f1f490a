#!/usr/bin/env python3
"""Checks that the mutants and the scenarios name each other, and that every mutant can be planted.

usage: check.py [ROOT]

A scenario's must_catch names mutants of this folder, and a mutant says more of these scenarios alone; docs/faults.md lists
each with its mistake. A mutant whose text is no longer in the tree plants nothing, and a name without a mutant promises
nothing.
"""

import pathlib
import sys

import faults
import mutant

def claims(mutants):
    """{(scenario, mutant)} of the mutants that are there."""
    return {(caught.scenario, each.name) for each in mutants for caught in each.caught_by}


def problems(root):
    mutants = mutant.load_all(root / "tests/mutants")
    promised = {(scenario, name) for name, scenarios in mutant.promises(root).items() for scenario in scenarios}
    claimed = claims(mutants)
    for scenario, name in sorted(promised - claimed):
        yield f"{scenario} must catch {name}, which is not there"
    for scenario, name in sorted(claimed - promised):
        yield f"{name}.toml names {scenario}, whose must_catch does not name it"
    for each in mutants:
        yield from each.problems(root)
    page = faults.Page.read(root / "docs/faults.md")
    for problem in page.problems(mutants, mutant.BACKENDS):
        yield f"docs/faults.md: {problem}"
    if faults.listed(len(mutants), len(mutants)) not in (root / "docs/faults.md").read_text():
        yield f"docs/faults.md: does not list {len(mutants)} of {len(mutants)} mutants"
    for name, place in page.lines:
        if (place.split(" on ")[0], name) not in claimed:
            yield f"docs/faults.md: {place} catches {name}, says its line, and no mutant of this folder does"
    if not mutants:
        yield "there is no mutant"


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else __file__).resolve()
    root = root if len(sys.argv) > 1 else root.parent.parent.parent
    try:
        found = list(problems(root))
    except ValueError as error:
        found = [str(error)]
    print("\n".join(found) or "every mutant can be planted and is named by a scenario")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
