"""The page of faults keeps what was not tried, and says of what was tried what its run says."""

import dataclasses
import pathlib
import sys
import tempfile
import types
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import faults  # noqa: E402
import mutant  # noqa: E402

MUTANT = types.SimpleNamespace(name="divided_twice", mistake="Divided | by the\nworld twice.")


def outcome(number=3, end="smallest", **case):
    failure = {"number": number, "unlike_default": case,
               "shrunk": {"steps": 12, "runs": 60, "end": end, "tier": "sim"}}
    return types.SimpleNamespace(result="fail", pattern="divided_twice", seconds=0.24, failure=failure)


class Faults(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name) / "faults.md"

    def lines(self):
        return [line for line in self.path.read_text().splitlines() if line.startswith("| `")]

    def test_ALineSaysWhatTheRunSays(self):
        page = faults.Page.read(self.path)
        page.add(MUTANT, "gradients.match on accelerator",
                 outcome(world={"size": 3}, layers=[{"width": 2, "bias": True}, {}], hook="sum", parts=[1, 0]))
        page.write(self.path, 60)
        self.assertEqual(self.lines(), [
            "| `divided_twice` | Divided \\| by the world twice. | `gradients.match on accelerator` | fail divided_twice | "
            "world.size 3 · layers [{width 2, bias true}, {}] · hook sum · parts [1, 0] | 3 | 0.2 | 12 | 60 |"])

    def test_ALineIsReplacedAndTheOthersStay(self):
        for place, number in (("b.two", 1), ("a.one", 2), ("b.two", 7)):
            page = faults.Page.read(self.path)
            page.add(MUTANT, place, outcome(number))
            page.write(self.path, 60)
        cells = [line.split(" | ") for line in self.lines()]
        self.assertEqual([(cell[2], cell[5]) for cell in cells], [("`a.one`", "2"), ("`b.two`", "7")])
        self.assertIn("Listed are 1 of 60 mutants", self.path.read_text())
        self.assertEqual([cell[4] for cell in cells], ["the default"] * 2)

    def test_ASearchThatItsBudgetEndedIsMarkedAndExplained(self):
        page = faults.Page()
        page.add(MUTANT, "a.one", outcome(end="time"))
        page.write(self.path, 60)
        self.assertIn("| 12+ | 60 |", self.lines()[0])
        self.assertIn("A `+` says", self.path.read_text())
        self.assertEqual(len(faults.Page.read(self.path).lines), 1)

    def test_AMutantThatIsMissingOrSaysAnotherMistakeIsAProblem(self):
        caught = mutant.CaughtBy("gradients.match")
        named = mutant.Mutant("divided_twice", MUTANT.mistake, (caught, mutant.CaughtBy("a.gpu", "nccl")), ())
        page = faults.Page()
        page.add(MUTANT, "gradients.match", outcome())
        self.assertEqual(list(page.problems([named], mutant.BACKENDS)), [])
        other = dataclasses.replace(named, mistake="Divided once.")
        self.assertEqual(len(list(page.problems([other], mutant.BACKENDS))), 1)
        missing = dataclasses.replace(named, name="another")
        self.assertIn("another", "".join(page.problems([missing], mutant.BACKENDS)))

    def test_AFailureThatWasNotShrunkHasNoLine(self):
        page = faults.Page()
        page.add(MUTANT, "a.one", types.SimpleNamespace(result="crash", pattern="", seconds=1, failure={}))
        page.write(self.path, 60)
        self.assertEqual(self.lines(), [])


if __name__ == "__main__":
    unittest.main()
