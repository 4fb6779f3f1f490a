"""The 32 beliefs of Lockstep's own program, word for word at 80 columns."""

import re
import unittest

from program_case import ProgramCase

SHOWN_AGAIN = 17  # without Unicode, and with each mistake: the beliefs' own tests plant them in all


class Beliefs(ProgramCase):
    def listed(self):
        """{name: (when it is true, the scenarios that prove it)} of the list."""
        status, out, _ = self.run_program("demo", "beliefs")
        self.assertEqual(status, 0)
        lines = out.splitlines()
        return {name.split()[0]: (condition.strip(), re.findall("proved by (.+)", proof))
                for name, condition, proof in zip(lines[::3], lines[1::3], lines[2::3])}

    @staticmethod
    def shown(text):
        """The command, the headline and the pictures, without what the list says too and what is the same of every belief."""
        parts = text.split("\n\n")
        return "\n\n".join([parts[0], *parts[2:-1]]) + "\n"

    def test_the_list(self):
        self.assert_golden("beliefs", self.transcript("demo", "beliefs"))
        self.assertEqual(list(self.listed()), ["belief-%d" % number for number in range(1, 33)])

    def test_each_fails_and_holds_on_its_condition(self):
        """The first whole, of the others what differs; each says when it is true and what proves it, as the list does."""
        texts = []
        for name, (condition, proof) in self.listed().items():
            texts.append(self.transcript("demo", name))
            words = " ".join(texts[-1].split())
            self.assertIn("It is " + condition, words)
            self.assertEqual(re.findall(r" proof \./lockstep (.+) exit 0", words), proof)
        text = texts[0] + "".join(map(self.shown, texts[1:]))
        self.assertTrue(all(len(line) <= 80 for line in text.splitlines()), text)
        self.assertNotIn("The checks say:", text)
        self.assert_golden("beliefs_shown", text)

    def test_one_without_unicode_and_with_its_mistakes(self):
        name = "belief-%d" % SHOWN_AGAIN
        plain = self.transcript("demo", name, LC_ALL="C")
        self.assertTrue(plain.isascii())
        wrong = [self.shown(self.transcript("demo", name, "--wrong", mistake)) for mistake in ("condition_unmet", "condition_met")]
        self.assert_golden("beliefs_again", plain + self.transcript("demo", name, "--settings") + "".join(wrong) +
                           self.transcript("demo", name, "--set", "world=7"))

    def test_real_processes_find_the_same(self):
        for name in ("belief-2", "belief-10", "belief-17", "belief-23"):
            forked = self.shown(self.transcript("demo", name, "--tier", "cold")).split("\n", 1)[1]
            self.assertIn("$ lockstep demo %s\n%s" % (name, forked), self.golden("beliefs_shown"))


if __name__ == "__main__":
    unittest.main()
