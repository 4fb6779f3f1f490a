"""Automatic mutants: each changes one thing where it may, one build has them all, and what does not compile is left out."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import auto  # noqa: E402
import cpp_mutants  # noqa: E402
import faults  # noqa: E402
import matrix  # noqa: E402
import schemata  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SAMPLE = r"""
#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

namespace {
constexpr int kMost = 3;  // 4 > 2 && 5
enum class Kind { one = 1, two = 2 };
static_assert(kMost == 3);

int of(Kind kind) {
  switch (kind) {
    case Kind::one:
      return 1;
    default:
      return 2;
  }
}

struct Counter {
  explicit Counter(int begin) : found{begin}, text("a < b") {}
  int count(const std::vector<int>& all) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i] > 0 && all[i] <= kMost) found += 1;
    }
    const auto is_odd = [](int each) { return each % 2 == 1; };
    const auto odd = std::count_if(all.begin(), all.end(), is_odd);
    if (odd == 0) return -1;
    const std::optional<int> some = found;
    if (!some) found += 50;
    return minus(found, 10);
  }
  static int minus(int a, int b) { return a - b; }
  int found;
  std::string text;
};

int repeated(int times, const std::string& text) { return times + static_cast<int>(text.size()); }
int never_called() { return repeated(2, "two"); }
}  // namespace

int main() {
  std::printf("%d\n", Counter(0).count({1, 2, 3, 0, 5}) + of(Kind::one));
}
"""
# By operator and what is seen of the mutant; the right program prints -6.
PRINTS = {
    ("comparison changed", "all[i] >= 0"): -5,
    ("comparison changed", "all[i] < kMost"): -7,
    ("and/or swapped", "all[i] > 0 || all[i] <= kMost"): -4,
    ("condition negated", "(!(odd == 0))"): 0,
    ("branch never taken", "(false)"): -9,
    ("statement dropped", ""): -9,
    ("constant changed", "found += 2;"): -3,
    ("constant changed", "minus(found, 11)"): -7,
    ("argument swapped", "minus(10, found)"): 8,
    ("arithmetic changed", "found -= 1;"): -12,
    ("bound moved", "all.size() - 1"): -6,
    ("constant changed", "return 0;"): -7,
}


class Clone:
    folder = built = pathlib.Path("no folder")


class Automatic(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.source = pathlib.Path(cls.folder.name) / "sample.cpp"
        every = dict(enumerate(cpp_mutants.mutants_of("sample.cpp", SAMPLE), 1))
        cls.text, said = cls.built(every)
        cls.bad = schemata.do_not_compile(said, {"sample.cpp": cls.text})
        cls.mutants = {number: each for number, each in every.items() if number not in cls.bad}
        cls.dropped = [every[number] for number in cls.bad]
        cls.text, cls.said = cls.built(cls.mutants)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def built(cls, mutants):
        text = schemata.Rewritten(SAMPLE, mutants).whole()
        cls.source.write_text(text)
        done = subprocess.run([os.environ.get("CXX", "clang++"), "-std=c++20", "-O0", f"-I{ROOT}", "-ferror-limit=0", "-o",
                               str(cls.source.with_suffix("")), str(cls.source)], capture_output=True, text=True)
        return text, done.stderr

    def prints(self, number):
        environment = os.environ | {"LOCKSTEP_MUTANT": str(number),
                                    "LOCKSTEP_MUTANTS_REACHED": str(self.source.with_suffix(".reached"))}
        done = subprocess.run([str(self.source.with_suffix(""))], env=environment, capture_output=True, text=True, timeout=60)
        return int(done.stdout)

    def test_WhatCompilesIsBuiltAndTheRestIsKnownFromTheErrors(self):
        self.assertEqual(self.said, "")
        self.assertIn(("argument swapped", 'repeated("two", 2)'), {(each.operator, each.after) for each in self.dropped})
        self.assertGreater(len(self.mutants), 3 * len(self.dropped))

    def test_NoneIsChosenUnlessTheEnvironmentSaysSo(self):
        self.assertEqual(self.prints(0), -6)

    def test_EachDoesWhatItsTextSays(self):
        for (operator, after), printed in PRINTS.items():
            found = {self.prints(number) for number, each in self.mutants.items()
                     if each.operator == operator and (after in each.after if after else "found += 1" in each.before)
                     and (after != "(false)" or "kMost" in each.before)}
            self.assertEqual(found, {printed}, (operator, after))

    def test_OnlyWhatRunsIsReached(self):
        self.source.with_suffix(".reached").unlink(missing_ok=True)
        self.assertEqual(self.prints(-1), -6)
        ones = self.source.with_suffix(".reached").read_bytes()
        reached = {number for number, one in enumerate(ones) if one}
        in_vain = {number for number, each in self.mutants.items() if "repeated(" in each.before}
        self.assertTrue(in_vain)
        self.assertFalse(reached & in_vain)
        self.assertTrue(reached & {number for number, each in self.mutants.items() if "kMost" in each.before})

    def test_WhatIsNoCodeThatRunsIsLeftAlone(self):
        lines = SAMPLE.splitlines()
        mutated = {each.line for each in self.mutants.values()} | {each.line for each in self.dropped}
        for text in ("constexpr", "enum class", "static_assert", "case Kind", "default:", "explicit Counter", "#include"):
            at = {number for number, line in enumerate(lines, 1) if text in line}
            self.assertTrue(at and not at & mutated, text)

    def test_AFunctionWithoutANameHasMutantsOfItsOwn(self):
        self.assertTrue(any("each % 2" in each.before for each in self.mutants.values()))

    def test_ASeedDrawsTheSameOnesAgain(self):
        files = auto.files_of(ROOT, ["ddp/sampler/*.cpp", "ddp/sampler/*.cpp"], "")
        self.assertEqual(len(files), len(set(files)))
        keys = [[each.key() for each in auto.drawn(ROOT, files, seed, 20)] for seed in (1, 1, 2)]
        self.assertEqual(keys[0], keys[1])
        self.assertNotEqual(keys[0], keys[2])


class Order(unittest.TestCase):
    """The order in which scenarios run a mutant."""

    def setUp(self):
        self.runner = auto.Runner(Clone(), [], 7, None)
        self.runner.seconds = {name: seconds for seconds, name in enumerate("abcdefgh")}
        self.runs = []

        def run(number, scenarios=()):
            self.runs.append("".join(scenarios))
            found = [{"scenario": name, "result": "fail" if name in self.catch else "pass", "findings": []} for name in scenarios]
            return 1 if self.catch & set(scenarios) else 0, "", found
        self.runner.run = run

    def catches(self, catch, scenarios="abcdefgh"):
        self.catch, self.runs[:] = set(catch), []
        return self.runner.scenario_for(1, list(scenarios))

    def test_AllThatReachItRunAndNoOther(self):
        self.assertEqual(self.catches("", "abcdeg"), auto.NOBODY)
        self.assertEqual(self.runs, ["abcd", "eg"])
        self.assertEqual(self.catches("h", "abcdeg"), auto.NOBODY)
        self.assertEqual(self.catches("a", ""), auto.NOBODY)
        self.assertEqual(self.runs, [])

    def test_TheOthersDoNotRunWhereOneOfTheFirstCatchesIt(self):
        self.assertEqual(self.catches("bg"), ("b", "fail"))
        self.assertEqual(self.runs, ["abcd"])

    def test_OneThatCatchesMuchComesFirst(self):
        for _ in range(9):
            self.assertEqual(self.catches("h"), ("h", "fail"))
        self.assertEqual(self.runs, ["ahbc"])


# In place of a GoogleTest program: its tests are A.One and A.Two, and B.Each/0 and /1, which no mutant but 3 and 4 reach.
PROGRAM = r"""#!PYTHON
import os, pathlib, sys, time
asked = next(each for each in sys.argv if each.startswith("--gtest_filter="))[15:].split(":")
if "--gtest_list_tests" in sys.argv:
    sys.exit(print("A.\n  One\n  Two\nDrawn/B.\n  Each/0  # GetParam() = 3\n  Each/1  # GetParam() = 4"))
number = int(os.environ["LOCKSTEP_MUTANT"])
fails = {1: ["A.One", "A.Two"], 2: ["A.One"], 3: ["Drawn/B.Each/1"]}.get(number, [])
for test in ["A.One", "A.Two", "Drawn/B.Each/0", "Drawn/B.Each/1"]:
    if test not in asked and test[:-1] + "*" not in asked:
        continue
    print("[ RUN      ]", test, flush=True)
    if number == -1:
        ones = bytes([0, 0, 0, 1, 1]) if "B" in test else bytes([0, 1, 1, 0, 1])
        pathlib.Path(os.environ["LOCKSTEP_MUTANTS_REACHED"]).write_bytes(ones)
    if number == 4 and test == "A.One":
        os._exit(1)
    if number == 4 and test == "A.Two":
        time.sleep(60)
    print("[  FAILED  ]" if test in fails else "[       OK ]", test, "(0 ms)", flush=True)
print("[==========] 4 tests ran. (7 ms total)")
"""


class OfTests(unittest.TestCase):
    """The matrix of unit tests and mutants."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        root = pathlib.Path(self.folder.name)
        (root / "build").mkdir()
        program = root / "some_test"
        program.write_text(PROGRAM.replace("PYTHON", sys.executable))
        program.chmod(0o755)
        self.tests = matrix.Matrix(root, [program])
        self.tests.reach()

    def test_TheInstancesOfATestAreOne(self):
        self.assertEqual(list(self.tests.programs), ["A.One", "A.Two", "Drawn/B.Each/*"])

    def test_WhatReachesAMutantRunsAndIsNotStoppedByTheFirstThatFails(self):
        self.assertEqual(self.tests.catch(1), {"A.One", "A.Two"})
        self.assertEqual(self.tests.catch(3), {"Drawn/B.Each/*"})

    def test_ATestThatEndsOrHangsItsProgramHasFailedAndTheOthersRun(self):
        self.addCleanup(setattr, matrix, "STARTS", matrix.STARTS)
        matrix.STARTS = 1.0
        self.assertEqual(self.tests.catch(4), {"A.One", "A.Two"})
        self.assertIn("Drawn/B.Each/*", self.tests.reached)

    def test_WhatOneAloneCatchesIsSaid(self):
        for number in (1, 2, 3):
            self.tests.catch(number)
        found = [(row["test"], row["catches"], row["alone"]) for row in self.tests.rows()]
        self.assertEqual(found, [("A.Two", [1], []), ("Drawn/B.Each/*", [3], [3]), ("A.One", [1, 2], [2])])


class Listed(unittest.TestCase):
    def test_AnEquivalentOneIsInTheTreeAndHasAReason(self):
        for each in auto.tomllib.loads((ROOT / "tests/mutants/automatic/equivalent.toml").read_text())["mutant"]:
            self.assertTrue(each["reason"].strip(), each)
            found = cpp_mutants.mutants_of(each["file"], (ROOT / each["file"]).read_text())
            self.assertIn((each["operator"], each["before"], each["after"]),
                          {(one.operator, one.before, one.after) for one in found})

    def test_EveryFileOfTheLibraryIsRead(self):
        for path in sorted((ROOT / "ddp").rglob("*.cpp")):
            cpp_mutants.mutants_of(str(path), path.read_text())

    def row(self, **changed):
        return {"number": 1, "file": "ddp/a.cpp", "line": 3, "operator": "comparison changed", "before": "a < b",
                "after": "a <= b", "is_equivalent": False, "caught_by": "", "as": "", "is_reached": True} | changed

    def test_ThePageHasSurvivorsFirstAndKeepsThem(self):
        rows = [self.row(caught_by="gradients.match", **{"as": "fail one"}), self.row(line=4),
                self.row(line=5, is_equivalent=True), self.row(line=6, caught_by="A.B", **{"as": "unit test"})]
        page = faults.Page()
        page.automatic = faults.automatic(rows, 7)
        page.by_hand = "## By hand\n\nKept.\n\n"
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "faults.md"
            page.write(path, 60)
            again = faults.Page.read(path)
            self.assertEqual((again.automatic, again.by_hand), (page.automatic, page.by_hand))
            self.assertLess(path.read_text().index("ddp/a.cpp:4"), path.read_text().index(faults.WRITTEN))
        self.assertNotIn("a.cpp:5", page.automatic)
        self.assertIn("| all | 3 | 1 | 1 | 1 |", page.automatic)
        self.assertTrue(faults.is_listed(self.row(line=40), page.automatic), "on another line")
        for other in ({"file": "ddp/b.cpp"}, {"after": "a > b"}, {"operator": "statement dropped"}):
            self.assertFalse(faults.is_listed(self.row(**other), page.automatic))


if __name__ == "__main__":
    unittest.main()
