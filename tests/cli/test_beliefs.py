"""The 32 beliefs of Lockstep's own program, word for word at 80 columns."""

import unittest

from program_case import ProgramCase

SHOWN_AGAIN = 17  # without Unicode, and with each mistake: the beliefs' own tests plant them in all


class Beliefs(ProgramCase):
    def names(self):
        status, out, _ = self.run_program("demo", "beliefs")
        self.assertEqual(status, 0)
        return [line.split()[0] for line in out.splitlines() if not line.startswith(" ")]

    @staticmethod
    def shown(text):
        """The text without what is the same of every belief, its settings and the mistakes that can be planted."""
        picture, lines = text.rsplit("\n\n  settings ", 1)
        return picture + "\n\n" + "".join(line for line in lines.splitlines(True) if line.startswith(("  proof", "exit")))

    def test_the_list(self):
        self.assert_golden("beliefs", self.told("demo", "beliefs"))
        self.assertEqual(self.names(), ["belief-%d" % number for number in range(1, 33)])

    def test_each_says_when_it_is_true(self):
        _, out, _ = self.run_program("demo", "beliefs")
        self.assertEqual(len([line for line in out.splitlines() if line.strip().startswith("true when ")]), 32)

    def test_the_names_of_version_0_1_are_known(self):
        for before, today in (("claims", "beliefs"), ("claim-30", "belief-30")):
            self.assertEqual(self.run_program("demo", before), self.run_program("demo", today))

    def test_each_fails_and_holds_on_its_condition(self):
        texts = [self.told("demo", name) for name in self.names()]
        self.assertTrue(all(len(line) <= 80 for line in "".join(texts).splitlines()), texts)
        text = texts[0] + "".join(map(self.shown, texts[1:]))
        self.assertNotIn("The checks say:", text)
        self.assert_golden("beliefs_shown", text)

    def test_one_without_unicode_and_with_its_mistakes(self):
        name = "belief-%d" % SHOWN_AGAIN
        plain = self.told("demo", name, LC_ALL="C")
        self.assertTrue(plain.isascii())
        self.assert_golden("beliefs_again", plain + "".join(
            self.told("demo", name, *more) for more in (
                ["--settings"], ["--wrong", "condition_unmet"], ["--wrong", "condition_met"], ["--set", "world=7"])))

    def test_real_processes_find_the_same(self):
        for name in ("belief-2", "belief-10", "belief-17", "belief-23"):
            forked = self.shown(self.told("demo", name, "--tier", "cold")).split("\n", 1)[1]
            self.assertIn("$ lockstep demo %s\n%s" % (name, forked), self.golden("beliefs_shown"))


if __name__ == "__main__":
    unittest.main()
