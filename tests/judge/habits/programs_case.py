"""The tests of programs that are right, customary or wrong, of which a class names the recorded ones."""


import os


class Programs:
    """Beside a RecordedCase. All of these are recorded in worlds of two."""

    FILE = ""  # Which has the programs.
    FURTHER = ()  # NAME:WORLD each, of programs that tests of the class's own judge.
    CLEAN = ()
    CUSTOMS = {}  # Program -> the invariant of which it is a remark, and the pattern.
    # Program -> the invariant that finds its mistake, and the pattern that it names; also what its story says, if it alone fails.
    MISTAKES = {}

    @classmethod
    def setUpClass(cls):
        cls.record("lockstep " + cls.__name__.lower() + " ", os.path.join("habits", cls.FILE),
                   [name + ":2" for name in (*cls.CLEAN, *cls.CUSTOMS, *cls.MISTAKES)] + list(cls.FURTHER))

    def test_right_programs_are_clean_without_a_remark(self):
        for name in self.CLEAN:
            with self.subTest(program=name):
                result, results = self.judge(name + "-2", statuses=(0, 1, 3))
                self.assertEqual(result.returncode, 0, result.stdout)
                self.assertEqual([remark for each in results.values() for remark in each.get("remarks", [])], [])

    def test_each_mistake_is_caught_and_named(self):
        for name, (invariant, pattern, *says) in self.MISTAKES.items():
            with self.subTest(mistake=name):
                result, results = self.judge(name + "-2", statuses=(0, 1, 3))
                self.assertEqual(result.returncode, 1, result.stdout)
                self.assertEqual(results[invariant]["result"], "fail", result.stdout)
                self.assertEqual(results[invariant]["findings"][0]["pattern"], pattern, result.stdout)
                for text in says:
                    self.assertIn(text, results[invariant]["findings"][0]["text"])
                    self.assertEqual([invariant], [each for each, is_ in results.items() if is_["result"] == "fail"], result.stdout)

    def test_what_is_customary_is_a_remark(self):
        for name, (invariant, pattern) in self.CUSTOMS.items():
            with self.subTest(custom=name):
                result, results = self.judge(name + "-2", statuses=(0,))
                self.assertEqual(results[invariant]["remarks"][0]["pattern"], pattern, result.stdout)
