"""A mutant that cannot be planted is found, and one that can changes just what it says."""

import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import mutant  # noqa: E402

GOOD = '''mistake = "Nothing is added."

[[caught_by]]
scenario = "sums.are_right"

[[change]]
file = "sum.cpp"
old = \'\'\'
  return a + b;
\'\'\'
new = \'\'\'
  return a;
\'\'\'
'''
SOURCE = "int sum(int a, int b) {\n  return a + b;\n}\n"


class Mutants(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)

    def load(self, text, source=SOURCE):
        (self.root / "sum.cpp").write_text(source)
        (self.root / "nothing_added.toml").write_text(text)
        return mutant.load(self.root / "nothing_added.toml")

    def test_PlantsItsChangeAndNothingElse(self):
        self.load(GOOD).plant(self.root)
        self.assertEqual((self.root / "sum.cpp").read_text(), SOURCE.replace("a + b", "a"))

    def test_IsFoundWhereItsTextIsGoneOrThereTwice(self):
        for source, count in (("int sum();\n", 0), (SOURCE + SOURCE, 2)):
            loaded = self.load(GOOD, source)
            self.assertIn(f"in sum.cpp {count} times, expected once", loaded.problems(self.root)[0])
            with self.assertRaises(ValueError):
                loaded.plant(self.root)
            self.assertEqual((self.root / "sum.cpp").read_text(), source)

    def test_IsFoundWhereItChangesNothingOrNamesNoScenarioOrNoFile(self):
        for old, new, problem in (("return a;", "return a + b;", "changes nothing"),
                                  ('[[caught_by]]\nscenario = "sums.are_right"\n', "", "names no scenario"),
                                  ('file = "sum.cpp"', 'file = "product.cpp"', "product.cpp is not there"),
                                  ("  return a + b;", "return a + b;", "does not begin a line")):
            self.assertIn(problem, self.load(GOOD.replace(old, new)).problems(self.root)[0])

    def test_IsCaughtByTheScenariosWhoseMustCatchNamesIt(self):
        (self.root / "scenarios").mkdir()
        (self.root / "scenarios/sums.cpp").write_text(
            'return scenario<Sum>({.name = "sums.are_right", .must_catch = {"nothing_added", "other"}});\n'
            'return scenario<Sum>({.name = "sums.are_whole", .must_catch =\n {"nothing_added"}});\n')
        scenarios = mutant.promises(self.root)["nothing_added"]
        self.load(GOOD.replace('right"\n', 'right"\npattern = "left_out"\n'))
        caught = mutant.load(self.root / "nothing_added.toml", scenarios).caught_by
        self.assertEqual([(each.scenario, each.pattern) for each in caught],
                         [("sums.are_right", "left_out"), ("sums.are_whole", "")])

    def test_IsRefusedByNameWhereItIsNoMutant(self):
        for text in ("", "mistake = ", GOOD.replace("file =", "path ="), GOOD.replace("mistake", "what")):
            with self.assertRaisesRegex(ValueError, "nothing_added.toml"):
                self.load(text)


if __name__ == "__main__":
    unittest.main()
