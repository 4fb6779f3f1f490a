"""README.md: the numbers and the outputs that it shows are those of the program. LOCKSTEP_APPROVE=1 writes them anew."""

import os
import re
import shlex
import unittest

from program_case import APPROVE, HERE, PROGRAM, UNSTABLE, ProgramCase

README = os.path.join(os.path.dirname(os.path.dirname(HERE)), "README.md")
EXAMPLE = re.compile(r"```sh\n\./lockstep (?P<command>[^\n]+)\n```\n\n```text\n(?P<output>.*?)```\n", re.DOTALL)
CATALOGUE = re.compile(r"```\n(?P<output>lockstep [^\n]* seed (?P<seed>\w+) [^\n]*\n  PASS .*?)```\n", re.DOTALL)
PLANNED = re.compile(r"(?m)^  (\S+) +lockstep (\w+) \w+ +([\d,]+) cases? ")
RESULT = re.compile(r"(?m)^  PASS +[\d.]+s  (\S+) +(\w+) \w+ +([\d,]+) cases .*?worlds?[^\n(]*?(?: · (\d+) refused)?(?= \(|$)")
SUMMARY = re.compile(r"(?m)^(\d+) scenarios, (\d+) results: (\d+) passed   ([\d,]+) cases .*$")


def stable(text):
    for pattern, stands in UNSTABLE:
        text = re.sub(pattern, stands, text)
    return text


def number(text):
    return int(text.replace(",", ""))


class Readme(ProgramCase):
    def setUp(self):
        super().setUp()
        with open(README, encoding="utf-8") as file:
            self.text = file.read()

    def approve(self, found, group, text):
        """Writes the text there, if it is to be approved."""
        if APPROVE:
            self.text = self.text[:found.start(group)] + text + self.text[found.end(group):]
            with open(README, "w", encoding="utf-8") as file:
                file.write(self.text)
            return text
        return found[group]

    def output_of(self, *command):
        status, out, err = self.finish(self.start_as_given(*command))
        self.assertIn(status, (0, 1), out + err)
        return out.replace(PROGRAM, "./lockstep")

    def test_a_failure_is_shown_as_the_program_prints_it(self):
        found = EXAMPLE.search(self.text)
        # A busy machine shrinks as far as an idle one.
        out = self.output_of(*shlex.split(found["command"]), "--shrink-time", "120")
        self.assertEqual(stable(self.approve(found, "output", out)), stable(out))

    def run_anew(self, shown, seed):
        """`shown` with the same results of a run, and its summary."""
        out = self.output_of("run", "--seed", seed)
        rows = {row.group(1, 2): row[0] for row in RESULT.finditer(out)}
        return SUMMARY.sub(SUMMARY.search(out)[0], RESULT.sub(lambda row: rows[row.group(1, 2)], shown))

    def test_the_whole_catalogue_has_as_many_scenarios_and_cases_as_are_planned(self):
        found = CATALOGUE.search(self.text)
        shown = self.approve(found, "output", self.run_anew(found["output"], found["seed"]) if APPROVE else "")
        planned = {(name, tier): number(cases)
                   for name, tier, cases in PLANNED.findall(self.output_of("run", "--plan", "--seed", found["seed"]))}
        rows = list(RESULT.finditer(shown))
        self.assertGreater(len(rows), 5)
        for row in rows:
            self.assertEqual(number(row[3]) + int(row[4] or 0), planned[row[1], row[2]], row[0])
        scenarios, results, passed, cases = map(number, SUMMARY.search(shown).groups())
        self.assertEqual((scenarios, results, passed), (len({name for name, _ in planned}), len(planned), len(planned)))
        # A few of all cases are refused, in rows that are not shown.
        self.assertIn(cases, range(sum(planned.values()) * 99 // 100, sum(planned.values()) + 1))

    def test_a_demonstration_is_shown_as_the_program_prints_it(self):
        out = self.output_of("demo", "buffers")
        block = re.search(r"`\./lockstep demo buffers` shows, among others:\n\n```\n(.*?)\n```\n", self.text, re.DOTALL)
        paragraphs = block[1].split("\n\n")
        self.assertEqual(len(paragraphs), 3)
        for paragraph in paragraphs:
            self.assertIn("\n" + paragraph + "\n", "\n" + out)

    def test_the_numbers_of_beliefs_and_of_lessons_are_those_of_the_lists(self):
        for command, shown in (("demo beliefs", r"demo beliefs +# (\d+) beliefs"), ("list --course", r"a course in (\w+) steps")):
            count = len([line for line in self.output_of(*command.split()).splitlines() if re.match(r"(belief-)?\d+", line)])
            words = {"twelve": 12, "thirteen": 13, "fourteen": 14, "fifteen": 15}
            said = re.search(shown, self.text)[1]
            self.assertEqual(words.get(said) or int(said), count, command)


if __name__ == "__main__":
    unittest.main()
