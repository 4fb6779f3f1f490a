#!/usr/bin/env python3
"""Measures the tree by mutants that nobody chose: draws them by a seed, and sees which scenario or unit test catches each.

usage: auto.py [--files GLOB,...] [--changed A..B] [--seed N] [--count N] [--tree FOLDER] [--preset NAME] [--jobs N]
               [--cases N] [--timeout SECONDS] [--out FILE] [--page FILE]

cpp_mutants.py says which mutants there are; --count of those of the files (ddp/**/*.cpp; with --changed those among them
that a change touches) are drawn by --seed, and put into one build of a clone, FOLDER (build/auto), by schemata.py. Those that do not compile are left out. Each is played by the
scenarios that reach it, in simulated worlds, on as many cases as they draw (--cases: others), until one fails; those that
survive by the unit tests of ddp/ that reach them. FILE (build/auto.json) gets every mutant with what caught it as soon as
that is known, and what it has already is not played again; --page, docs/faults.md say, gets the score and the survivors.
automatic/equivalent.toml lists mutants that change nothing, and why; they do not count. Exit 0: every mutant was caught.
"""

import argparse
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tomllib

import cpp_mutants
import faults
import mutant
import schemata
from tree import NO_FAILURE, ROOT, Tree, must, run

HERE = pathlib.Path(__file__).resolve().parent
UNIT_TESTS = re.compile(r"^(tests/ddp/ddp_\w+_test): ", re.MULTILINE)


def files_of(root, globs, change):
    files = sorted({path for glob in globs for path in root.glob(glob)})
    touched = must("git", "-C", root, "diff", "--name-only", change).splitlines() if change else []
    return [path for path in files if not change or str(path.relative_to(root)) in touched]


def drawn(root, files, seed, count):
    """The mutants of these files that a seed draws, in the order in which it does."""
    every = [each for path in files
             for each in cpp_mutants.mutants_of(str(path.relative_to(root)), path.read_text())]
    random.Random(seed).shuffle(every)
    return every[:count]


def equivalents(path=HERE / "automatic/equivalent.toml"):
    """{(file, operator, before, after)} of the mutants that change nothing."""
    listed = tomllib.loads(path.read_text())["mutant"]
    return {(each["file"], each["operator"], each["before"], each["after"]) for each in listed}


class Build:
    """A tree whose files hold the mutants of {number: Mutant}; it lacks those that did not compile."""

    def __init__(self, tree, mutants):
        self.tree, self.mutants = tree, dict(mutants)

    def write(self, files):
        texts = {}
        for file in files:
            must("git", "-C", self.tree.folder, "checkout", "--quiet", "--", file)
            path = self.tree.folder / file
            here = {number: each for number, each in self.mutants.items() if each.file == file}
            if here:
                texts[file] = schemata.Rewritten(path.read_text(), here).whole()
                path.write_text(texts[file])
        return texts

    def make(self):
        (self.tree.folder / schemata.SWITCH).write_text((ROOT / schemata.SWITCH).read_text())
        files = {each.file for each in self.mutants.values()}
        texts = self.write(files)
        while True:
            done = run("ninja", "-k", "0", "-C", self.tree.built, "-j", self.tree.jobs, *self.tree.targets)
            if done.returncode == 0:
                return
            bad = schemata.do_not_compile(done.stdout + done.stderr, texts) & set(self.mutants)
            if not bad:
                sys.exit(f"auto.py: the tree does not build, and no mutant is why:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
            texts |= self.write({self.mutants.pop(number).file for number in bad})
            print(f"{len(bad)} more do not compile", flush=True)


class Player:
    """Plays one mutant after the other in a tree that has them all."""

    def __init__(self, tree, programs, seed, timeout):
        self.tree, self.programs, self.seed, self.timeout = tree, programs, seed, timeout
        self.map = tree.folder / "build/reached"
        self.scenarios, self.suites = {}, {}  # the numbers that each reaches

    def process(self, number, *command):
        """(exit code, or None where the time was over, and what it said)."""
        environment = os.environ | {"LOCKSTEP_MUTANT": str(number), "LOCKSTEP_MUTANTS_REACHED": str(self.map)}
        try:
            done = subprocess.run([str(part) for part in command], env=environment, cwd=self.tree.folder, text=True,
                                  errors="replace", timeout=self.timeout, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            return done.returncode, done.stdout
        except subprocess.TimeoutExpired:
            return None, ""

    def run(self, number, scenarios):
        report = self.tree.folder / "build/auto-run.json"
        report.unlink(missing_ok=True)
        code, said = self.process(number, self.tree.built / "cli/lockstep", "run", *scenarios, "--tier", "sim", "--seed",
                                  self.seed, "-x", "-q", "--no-shrink", "--timeout", "10", "--out",
                                  self.tree.folder / "build/auto-run", "--json", report, *self.tree.how_many)
        results = json.loads(report.read_text())["results"] if report.exists() else []
        return code, said, results

    def learn(self):
        """Which mutants each scenario and each suite of tests reaches; all must pass without a mutant."""
        code, said, results = self.run(-1, [])
        if not results or code not in (0, 3):
            sys.exit(f"auto.py: the scenarios do not pass without a mutant:\n{said[-3000:]}")
        for result in results:
            self.scenarios[result["scenario"]] = self.reached(lambda: self.run(-1, [result["scenario"]]))
        for program in self.programs:
            listed = must(program, "--gtest_list_tests")
            for suite in (line.strip().split("#")[0].strip() for line in listed.splitlines() if line[:1] not in " \n"):
                if suite.endswith("."):
                    self.suites[program, suite] = self.reached(lambda: self.test(-1, program, suite))

    def reached(self, play):
        self.map.unlink(missing_ok=True)
        play()
        ones = self.map.read_bytes() if self.map.exists() else b""
        return {number for number, one in enumerate(ones) if one}

    def test(self, number, program, suite):
        return self.process(number, program, f"--gtest_filter={suite}*", "--gtest_fail_fast")

    def caught_by(self, number):
        """(the scenario or test that catches a mutant, how, the scenarios that reach it)."""
        scenarios = [name for name, reached in self.scenarios.items() if number in reached]
        if scenarios:
            code, said, results = self.run(number, scenarios)
            for result in results:
                if result["result"] not in NO_FAILURE:
                    finding = (result["findings"] or [{"pattern": ""}])[0]
                    return result["scenario"], f"{result['result']} {finding['pattern']}".strip(), scenarios
            if code not in (0, 3):
                return "run", "time limit" if code is None else f"exit code {code}", scenarios
        for (program, suite), reached in self.suites.items():
            if number in reached:
                code, said = self.test(number, program, suite)
                if code != 0:
                    failed = next((line.split("] ")[1].split(" (")[0] for line in said.splitlines()
                                   if line.startswith("[  FAILED  ]")), suite)
                    return failed, "time limit" if code is None else "unit test", scenarios
        return "", "", scenarios


def row_of(number, planted, same):
    return {"number": number, "file": planted.file, "line": planted.line, "operator": planted.operator,
            "before": planted.before, "after": planted.after, "is_equivalent":
            (planted.file, planted.operator, planted.before, planted.after) in same}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", default="ddp/**/*.cpp")
    parser.add_argument("--changed")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--tree", type=pathlib.Path, default=ROOT / "build/auto")
    parser.add_argument("--preset", default="release")
    parser.add_argument("--jobs", default="2")
    parser.add_argument("--cases")
    parser.add_argument("--timeout", type=float, default=300)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build/auto.json")
    parser.add_argument("--page", type=pathlib.Path)
    arguments = parser.parse_args()
    tree = Tree(arguments.tree, arguments.jobs, arguments.preset, False, arguments.cases)
    files = files_of(tree.folder, arguments.files.split(","), arguments.changed)
    mutants = drawn(tree.folder, files, arguments.seed, arguments.count)
    build = Build(tree, dict(enumerate(mutants, 1)))
    unit_tests = UNIT_TESTS.findall(must("ninja", "-C", tree.built, "-t", "targets", "all"))
    tree.targets = ["lockstep", *unit_tests]
    build.make()
    player = Player(tree, [tree.built / name for name in unit_tests], arguments.seed, arguments.timeout)
    player.learn()
    same = equivalents()
    known = {row["number"]: row for row in json.loads(arguments.out.read_text())} if arguments.out.exists() else {}
    rows = []
    for number, each in build.mutants.items():
        row = row_of(number, each, same)
        if number in known and known[number] | row == known[number]:
            row = known[number]
        else:
            row["caught_by"], row["as"], row["reached_by"] = player.caught_by(number)
        rows.append(row)
        arguments.out.write_text(json.dumps(rows, indent=1))
        print(f"{row['caught_by'] or 'SURVIVES':44} {each.key()}", flush=True)
    print(faults.scores(rows))
    if arguments.page:
        page = faults.Page.read(arguments.page)
        page.automatic = faults.automatic(rows, arguments.seed)
        page.write(arguments.page, len(mutant.load_all()))
    tree.restore()
    return 1 if any(faults.survives(row) for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
