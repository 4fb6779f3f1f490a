"""Which unit tests fail with which mutant, and those that catch nothing which others do not.

auto.py --matrix FILE runs each mutant that no scenario catches by every test that reaches it, and writes FILE: for each
test its seconds, how many mutants it reaches, those it catches and those that it alone catches. A test here is what its
TEST macro names: the instances of a TEST_P are one. What takes longer than LONGEST is left out, and not judged.
"""

import json
import re

import schemata

LONGEST = 6.0  # seconds of one test
STARTS = 10.0  # seconds beyond what the tests take, until a process counts as one that hangs
TRIES = 4  # of a program that a mutant ends or hangs, each with the tests that have not run
BEGUN = re.compile(r"^\[ RUN      \] (\S+)", re.MULTILINE)
PASSED = re.compile(r"^\[       OK \] (\S+)|^\[  SKIPPED \] (\S+)", re.MULTILINE)
ENDED = re.compile(r"^\[==========\] .* ran\.", re.MULTILINE)


def listed(said):
    """The tests of a program, in its order, from what --gtest_list_tests says; those of a TEST_P once."""
    found, suite = {}, ""
    for line in said.splitlines():
        name = line.split("#")[0].strip()
        if line.startswith("  ") and suite:
            found[suite + re.sub(r"/\w+$", "", name) + ("/*" if "/" in name else "")] = None
        elif re.fullmatch(r"\S+\.", name):
            suite = name
    return list(found)


def name_of(each):
    """The name of the test of which this is an instance."""
    return re.sub(r"/\w+$", "/*", each) if re.search(r"\..*/", each) else each


def read(said):
    """The tests that failed, those that have run, and whether the program came to its end; one that it died in has failed."""
    begun = BEGUN.findall(said)
    passed = {one or other for one, other in PASSED.findall(said)}
    return ({name_of(each) for each in begun if each not in passed}, {name_of(each) for each in begun},
            bool(ENDED.search(said)))


class Matrix:
    """The tests of some programs, with what each reaches and catches."""

    def __init__(self, folder, programs):
        self.folder, self.map = folder, folder / "build/reached-by-tests"
        self.programs = {test: program for program in programs for test in listed(self.run(0, program, "*", None, "--gtest_list_tests")[1])}
        self.seconds, self.reached, self.caught = {}, {}, {test: set() for test in self.programs}

    def run(self, number, program, tests, limit, *options):
        """(exit code, or None where the time was over, and what it said)."""
        return schemata.run_with(number, (program, f"--gtest_filter={tests}", *options), self.folder, self.map, limit)

    def reach(self):
        """Runs each test by itself without a mutant. One that fails so, or takes too long, is not judged."""
        for test, program in self.programs.items():
            self.map.unlink(missing_ok=True)
            code, said = self.run(-1, program, test, LONGEST)
            spent = re.search(r"ran\. \((\d+) ms total\)", said)
            failed, _, has_ended = read(said)
            if code is not None and has_ended and not failed:
                self.seconds[test] = int(spent[1]) / 1000
                self.reached[test] = schemata.numbers_in(self.map)

    def catch(self, number):
        """The tests that fail with a mutant, of those that reach it."""
        found = set()
        for program in dict.fromkeys(self.programs.values()):
            left = [test for test, reached in self.reached.items() if number in reached and self.programs[test] == program]
            for _ in range(TRIES):
                limit = STARTS + 3 * sum(self.seconds[test] for test in left)
                _, said = self.run(number, program, ":".join(left), limit) if left else (0, "")
                failed, begun, _ = read(said)
                found |= failed
                left = [test for test in left if test not in begun]
        for test in found:
            self.caught[test].add(number)
        return found

    def rows(self):
        """By test, those first that catch least alone."""
        tests_of = {}
        for test, numbers in self.caught.items():
            for number in numbers:
                tests_of.setdefault(number, set()).add(test)
        rows = [{"test": test, "program": self.programs[test].name, "seconds": self.seconds[test],
                 "reaches": len(self.reached[test]), "catches": sorted(self.caught[test]),
                 "alone": sorted(number for number in self.caught[test] if len(tests_of[number]) == 1)}
                for test in self.reached]
        return sorted(rows, key=lambda row: (len(row["alone"]), len(row["catches"])))

    def write(self, path):
        path.write_text(json.dumps(self.rows(), indent=1))
