#!/usr/bin/env python3
"""Would Lockstep have caught this? Plants a change of the library's code, and says which scenario fails, and on what.

usage: ./lockstep faults [--patch FILE | --diff A..B] [--tree FOLDER] [--preset NAME] [--jobs N] [--seed N] [--cases N]

--patch plants a patch as a whole: a mistake that you have in mind, or one that was made. --diff takes back each hunk of a
change, in the tree as it was after it (B): what a correction corrects is a mistake that the scenarios should know. Without
either it is the last commit. Each is planted in a clone of the committed tree, in FOLDER (build/faults), which is built
there, and the catalogue is run in simulated worlds until a scenario fails, which is shrunk.

Prints what escaped first, then what could not be tried and why, then what was caught, with the case and the smallest one.
Exit 0: all were caught; 1: one escaped; 2: there is nothing to plant, or nothing of it could be tried.
"""

import argparse
import dataclasses
import pathlib
import re
import subprocess
import sys

import faults
from tree import NO_FAILURE, ROOT, Tree, run

FOLDERS = ("ddp", "train", "reference")
HUNK = re.compile(r"^@@ -\S+ \+(\d+)", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Planted:
    place: str  # "ddp/reducer/reducer.cpp:12"
    patch: str
    how: tuple = ()  # of git apply


@dataclasses.dataclass(frozen=True)
class Reported:
    order: int  # 0: escaped, 1: could not be tried, 2: caught
    text: str


def hunks_of(diff):
    """Each hunk of a diff as a patch of its own, to be taken back."""
    for part in re.split(r"^(?=diff --git )", diff, flags=re.MULTILINE):
        begins = [found.start() for found in HUNK.finditer(part)]
        file = re.search(r"^diff --git a/(.+) b/", part, re.MULTILINE)
        for begin, end in zip(begins, begins[1:] + [len(part)]):
            line = HUNK.match(part, begin)[1]
            yield Planted(f"{file[1]}:{line}", part[:begins[0]] + part[begin:end], ("--reverse", "--recount"))


def planted_of(arguments):
    if arguments.patch:
        try:
            return [Planted(arguments.patch.name, arguments.patch.read_text())]
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"--patch {arguments.patch} cannot be read: {error}") from error
    shown = run("git", "-C", arguments.root, "diff", "--no-color", "--no-ext-diff", "--no-renames", arguments.diff, "--",
                *FOLDERS)
    if shown.returncode != 0:
        raise ValueError(f"--diff {arguments.diff}: git does not know it: {shown.stderr.strip().splitlines()[-1]}")
    return list(hunks_of(shown.stdout))


def first_error(said):
    return next((line for line in said.splitlines() if "error:" in line), said.strip()[-200:])


def tell(tree, planted, seed):
    """Plants one, builds and runs it, and takes it back."""
    applied = subprocess.run(["git", "-C", str(tree.folder), "apply", *planted.how, "-"], input=planted.patch, text=True,
                             capture_output=True)
    if applied.returncode != 0:
        return Reported(1, f"NOT TRIED {planted.place}: it cannot be applied: {applied.stderr.strip().splitlines()[0]}")
    try:
        trouble = tree.build()
        if trouble:
            return Reported(1, f"NOT TRIED {planted.place}: it does not build: {first_error(trouble)}")
        outcomes = tree.run_on("memory", [], seed, shrinks=True, stops=True)
    finally:
        tree.restore()
    for scenario, outcome in outcomes.items():
        if outcome.result not in NO_FAILURE:
            return Reported(2, f"caught    {planted.place}: {scenario}, {outcome.result} {outcome.pattern}".rstrip()
                        + f"\n          {outcome.text}" + story_of(outcome.failure))
    return Reported(0, f"ESCAPED   {planted.place}: all {len(outcomes)} results hold with it")


def story_of(failure):
    if not failure:
        return ""
    smallest = " · ".join(faults.fields(failure["unlike_default"])) or "the default"
    return f"\n          case {failure['number']}, the smallest that shows it: {smallest}"


def main():
    parser = argparse.ArgumentParser(prog="./lockstep faults", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    of = parser.add_mutually_exclusive_group()
    of.add_argument("--patch", type=pathlib.Path)
    of.add_argument("--diff", default="HEAD~1..HEAD")
    parser.add_argument("--tree", type=pathlib.Path, default=ROOT / "build/faults")
    parser.add_argument("--preset", default="release")
    parser.add_argument("--jobs", default="2")
    parser.add_argument("--seed", default="7")
    parser.add_argument("--cases")
    arguments = parser.parse_args()
    arguments.root = ROOT
    try:
        every = planted_of(arguments)
    except ValueError as error:
        parser.exit(2, f"./lockstep faults: {error}\n")
    if not every:
        parser.exit(2, f"./lockstep faults: {arguments.diff} changes nothing in {', '.join(FOLDERS)}\n")
    revision = "HEAD" if arguments.patch else arguments.diff.split("..")[-1] or "HEAD"
    tree = Tree(arguments.tree, arguments.jobs, arguments.preset, False, arguments.cases, revision)
    print(f"{len(every)} to plant in {arguments.tree}; a build of each comes first", flush=True)
    return report([tell(tree, each, arguments.seed) for each in every])


def report(told):
    for each in sorted(told, key=lambda one: one.order):
        print(each.text)
    orders = [each.order for each in told]
    print(f"{orders.count(2)} of {len(told)} caught, {orders.count(0)} escaped, {orders.count(1)} could not be tried")
    return 1 if 0 in orders else 0 if 2 in orders else 2


if __name__ == "__main__":
    sys.exit(main())
