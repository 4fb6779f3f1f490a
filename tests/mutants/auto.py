#!/usr/bin/env python3
"""Measures the tree by mutants that nobody chose: draws them by a seed, and sees which scenario or unit test catches each.

usage: auto.py [--files GLOB,...] [--changed A..B] [--tests REGEX] [--no-scenarios] [--seed N] [--count N] [--tree FOLDER]
               [--revision COMMIT] [--preset NAME] [--jobs N] [--cases N] [--timeout SECONDS] [--out FILE] [--page FILE] [--known PAGE]
               [--matrix FILE]

cpp_mutants.py says which mutants there are; --count of those of the files (ddp/**/*.cpp; with --changed those among them
that a change touches) are drawn by --seed, and put into one build of a clone, FOLDER (build/auto), by schemata.py. Those
that do not compile are left out. Each is run by the scenarios that reach it, in simulated worlds, on the cases of a
plain run (--cases: others), until one fails, those first that have caught most for their time; one that survives is run
by the unit tests that reach it: those of ddp/ and train/, or of the programs whose targets --tests matches. With --no-scenarios unit
tests alone run, as for mutants of what judges: its mistakes are its own tests' to find. FILE (build/auto.json) gets every mutant with what caught it as soon as
that is known, and what it has already is not run again; --page, docs/faults.md say, gets the score and the survivors. With --matrix every unit test
that reaches what no scenario catches runs, not until one fails, and that FILE says which of them catch nothing (matrix.py).
What takes longest is the first build of the clone: FOLDER may be a copy of a built tree, mounted where it was built, whose
uncommitted changes are lost. automatic/equivalent.toml lists mutants that change nothing, and why; they do not count. Exit 0: every mutant was caught, but for
those that PAGE lists.
"""

import argparse
import collections
import json
import pathlib
import random
import re
import sys
import tomllib

import cpp_mutants
import faults
import matrix
import mutant
import schemata
from tree import NO_FAILURE, ROOT, Tree, must, run

HERE = pathlib.Path(__file__).resolve().parent
NOBODY = ("", "")  # caught it
FIRST = 4  # scenarios that run a mutant before the others do
STARTS = 0.5  # seconds that a run takes without its cases
UNIT_TESTS = r"tests/(?:ddp|train)/\w+_test"


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
            text, path = must("git", "-C", self.tree.folder, "show", f"HEAD:{file}"), self.tree.folder / file
            here = {number: each for number, each in self.mutants.items() if each.file == file}
            if here:
                text = texts[file] = schemata.Rewritten(text, here).whole()
            if path.read_text() != text:  # Else it would be compiled again.
                path.write_text(text)
        return texts

    def make(self, targets):
        switch, text = self.tree.folder / schemata.SWITCH, (ROOT / schemata.SWITCH).read_text()
        if not switch.exists() or switch.read_text() != text:
            switch.write_text(text)
        files = {each.file for each in self.mutants.values()}
        texts = self.write(files)
        while True:
            done = run("ninja", "-k", "0", "-C", self.tree.built, "-j", self.tree.jobs, *targets)
            if done.returncode == 0:
                return
            bad = schemata.do_not_compile(done.stdout + done.stderr, texts) & set(self.mutants)
            if not bad:
                sys.exit(f"auto.py: the tree does not build, and no mutant is why:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
            texts |= self.write({self.mutants.pop(number).file for number in bad})
            print(f"{len(bad)} more do not compile", flush=True)


class Runner:
    """Runs one mutant after the other in a tree that has them all."""

    def __init__(self, tree, programs, seed, timeout):
        self.tree, self.programs, self.seed, self.timeout = tree, programs, seed, timeout
        self.limit = None  # of one process; without a mutant none
        self.map = tree.folder / "build/reached"
        self.seconds, self.caught = {}, collections.Counter()  # by scenario: of its cases, and mutants that it caught

    def process(self, number, *command):
        """(exit code, or None where the time was over, and what it said)."""
        return schemata.run_with(number, command, self.tree.folder, self.map, self.limit)

    def run(self, number, scenarios=()):
        """The same of a run of these scenarios, or of all, and its results."""
        report = self.tree.folder / "build/auto-run.json"
        report.unlink(missing_ok=True)
        code, said = self.process(number, self.tree.built / "cli/lockstep", "run", *scenarios, "--tier", "sim", "--seed", self.seed,
                                  "-x", "-q", "--no-shrink", "--timeout", "60", "--out",
                                  self.tree.folder / "build/auto-run", "--json", report, *self.tree.how_many)
        is_whole = code is not None and report.exists()
        return code, said, json.loads(report.read_text())["results"] if is_whole else []

    def reached(self, run):
        """The numbers of the mutants that this reaches."""
        self.map.unlink(missing_ok=True)
        run()
        return schemata.numbers_in(self.map)

    def reached_by_scenarios(self):
        """{scenario: numbers}."""
        def passed(scenarios=()):
            code, said, results = self.run(-1, scenarios)
            if code not in (0, 3):
                sys.exit(f"auto.py: the scenarios do not pass without a mutant:\n{said[-3000:]}")
            return results
        self.seconds = {result["scenario"]: result["seconds"] for result in passed()}
        return {name: self.reached(lambda: passed((name,))) for name in self.seconds}

    def reached_by_tests(self):
        """{(program, suite): numbers}."""
        found = {}
        for program in self.programs:
            listed = must(program, "--gtest_list_tests")
            for suite in re.findall(r"^(\S+\.)(?:\s|$)", listed, re.MULTILINE):
                found[program, suite] = self.reached(lambda: self.must_pass(program, suite))
        return found

    def must_pass(self, program, suite):
        code, said = self.test(-1, program, suite)
        if code != 0:
            sys.exit(f"auto.py: {program.name} {suite} does not pass without a mutant:\n{said[-3000:]}")

    def test(self, number, program, suite):
        return self.process(number, program, f"--gtest_filter={suite}*", "--gtest_fail_fast")

    def scenario_for(self, number, scenarios):
        """The one of these scenarios that catches a mutant, and how; nothing where none does."""
        order = sorted(scenarios, key=lambda name: (self.seconds[name] + STARTS) / (self.caught[name] + 1))
        for some in (order[:FIRST], order[FIRST:]):
            caught = self.first_of(number, some) if some else NOBODY
            if caught != NOBODY:
                self.caught[caught[0]] += 1
                return caught
        return NOBODY

    def first_of(self, number, scenarios):
        code, _, results = self.run(number, scenarios)
        for result in results:
            pattern = result["findings"][0]["pattern"] if result["findings"] else ""
            # A share of labels depends on the seed alone.
            if result["result"] not in NO_FAILURE and pattern != "label_missed":
                return result["scenario"], f"{result['result']} {pattern}".strip()
        if code not in (0, 3):
            return "the run itself", "time limit" if code is None else f"exit code {code}"
        return NOBODY

    def test_for(self, number, suites):
        """The unit test that catches a mutant, of the suites that reach it."""
        for (program, suite), reached in suites.items():
            if number not in reached:
                continue
            code, said = self.test(number, program, suite)
            if code != 0:
                failed = re.search(r"\[  FAILED  \] (\S+)", said)
                return failed[1] if failed else suite, "unit test"
        return NOBODY


def row_of(number, planted, same):
    return {"number": number, "file": planted.file, "line": planted.line, "operator": planted.operator,
            "before": planted.before, "after": planted.after, "is_equivalent":
            (planted.file, planted.operator, planted.before, planted.after) in same}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", default="ddp/**/*.cpp")
    parser.add_argument("--changed")
    parser.add_argument("--tests", default=UNIT_TESTS)
    parser.add_argument("--no-scenarios", action="store_true")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--tree", type=pathlib.Path, default=ROOT / "build/auto")
    parser.add_argument("--revision", default="HEAD")
    parser.add_argument("--preset", default="release")
    parser.add_argument("--jobs", default="2")
    parser.add_argument("--cases")
    parser.add_argument("--timeout", type=float, default=900)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build/auto.json")
    parser.add_argument("--page", type=pathlib.Path)
    parser.add_argument("--known", type=pathlib.Path)
    parser.add_argument("--matrix", type=pathlib.Path)
    arguments = parser.parse_args()
    tree = Tree(arguments.tree, arguments.jobs, arguments.preset, False, arguments.cases, arguments.revision)
    files = files_of(tree.folder, arguments.files.split(","), arguments.changed)
    mutants = drawn(tree.folder, files, arguments.seed, arguments.count)
    build = Build(tree, dict(enumerate(mutants, 1)))
    unit_tests = re.findall(rf"^({arguments.tests}): ", must("ninja", "-C", tree.built, "-t", "targets", "all"), re.MULTILINE)
    if not arguments.no_scenarios:
        build.make(["lockstep"])
    runner = Runner(tree, [tree.built / name for name in unit_tests], arguments.seed, arguments.timeout)
    reached, same = {} if arguments.no_scenarios else runner.reached_by_scenarios(), equivalents()
    known = {row["number"]: row for row in json.loads(arguments.out.read_text())} if arguments.out.exists() else {}
    rows = [row_of(number, each, same) for number, each in build.mutants.items()]
    rows = [known[row["number"]] if row.items() <= known.get(row["number"], {}).items() else row for row in rows]

    def keep(row, caught):
        row["caught_by"], row["as"] = caught
        arguments.out.write_text(json.dumps(rows, indent=1))
        print(f"{row['caught_by'] or 'SURVIVES':44} {build.mutants[row['number']].key()}", flush=True)

    runner.limit = arguments.timeout
    for row in rows:
        scenarios = [name for name, numbers in reached.items() if row["number"] in numbers]
        row["is_reached"] = bool(scenarios)
        if arguments.no_scenarios:
            row.setdefault("caught_by", "")
        elif "caught_by" not in row:
            keep(row, runner.scenario_for(row["number"], scenarios))
    left = [row for row in rows if faults.survives(row)]
    runner.limit = None
    suites = {}
    if left:  # Unit tests take longer to build than the program.
        build.make(unit_tests)
        rows[:] = [row for row in rows if row["number"] in build.mutants]
    if left and arguments.matrix:
        tests = matrix.Matrix(tree.folder, runner.programs)
        tests.reach()
        for row in (row for row in rows if not row["is_equivalent"] and not faults.is_caught_by_scenario(row)):
            found = sorted(tests.catch(row["number"]))
            keep(row, (found[0], "unit test") if found else NOBODY)
            tests.write(arguments.matrix)
    elif left:
        suites = runner.reached_by_tests()
    runner.limit = arguments.timeout
    for row in filter(faults.survives, rows if suites else []):
        keep(row, runner.test_for(row["number"], suites))
    print(faults.scores(rows))
    if arguments.page:
        page = faults.Page.read(arguments.page)
        page.automatic = faults.automatic(rows, arguments.seed)
        page.write(arguments.page, len(mutant.load_all()))
    tree.restore()
    listed = arguments.known.read_text() if arguments.known else ""
    return 1 if any(faults.survives(row) and not faults.is_listed(row, listed) for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
