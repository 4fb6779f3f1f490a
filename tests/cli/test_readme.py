"""README.md: the numbers and the outputs that it shows are those of the program. LOCKSTEP_APPROVE=1 writes them anew."""

import os
import re
import shlex
import unittest

from program_case import APPROVE, HERE, PROGRAM, UNSTABLE, ProgramCase

ROOT = os.path.dirname(os.path.dirname(HERE))
README = os.path.join(ROOT, "README.md")
EXAMPLE = re.compile(r"```sh\n\./lockstep (?P<command>[^\n]+)\n```\n\n```text\n(?P<output>.*?)```\n", re.DOTALL)
JUDGED = re.compile(r"(?s)`judge` says, without a case:\n\n```\n(.*?)```\n")
CATALOGUE = re.compile(r"```\n(?P<output>lockstep [^\n]* seed (?P<seed>\w+) [^\n]*\n  PASS .*?)```\n", re.DOTALL)
PLANNED = re.compile(r"(?m)^  (\S+) +lockstep (\w+) \w+ +([\d,]+) cases? ")
RESULT = re.compile(r"(?m)^  PASS +[\d.]+s  (\S+) +(\w+) \w+ +([\d,]+) cases .*?worlds?[^\n(]*?(?: · (\d+) refused)?(?= \(|$)")
SUMMARY = re.compile(r"(?m)^(\d+) scenarios, (\d+) results: (\d+) passed   ([\d,]+) cases .*$")


def stable(text):
    for pattern, stands in UNSTABLE:
        text = re.sub(pattern, stands, text)
    return text


def read(*names):
    with open(os.path.join(ROOT, *names), encoding="utf-8") as file:
        return file.read()


def last_picture_of(page, run):
    """The last picture of the run of this name, as a file of its own, with the style of the page."""
    style = re.search(r"(?s)<style>(.*?)</style>", page)[1]
    picture = re.findall(r"(?s)<svg .*?</svg>", re.search(r"(?s)<h2>%s</h2>.*?</article>" % run, page)[0])[-1]
    return re.sub(r"(<svg [^>]*>)", lambda begin: "%s<style>%ssvg { background: var(--paper); }\n</style>" % (begin[1], style), picture, count=1) + "\n"


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

    def test_a_judged_training_is_shown_as_its_golden_text_has_it(self):
        self.assertIn(stable(JUDGED.search(self.text)[1]), read("tests", "cli", "golden", "judge_fails.txt"))

    def run_anew(self, shown, seed):
        """`shown` with the same results of a run, and its summary."""
        out = self.output_of("run", "--seed", seed)
        rows = {row.group(1, 2): row[0] for row in RESULT.finditer(out)}
        return SUMMARY.sub(SUMMARY.search(out)[0], RESULT.sub(lambda row: rows[row.group(1, 2)], shown))

    def test_the_whole_catalogue_has_as_many_scenarios_and_cases_as_are_planned(self):
        found = CATALOGUE.search(self.text)
        shown = self.approve(found, "output", self.run_anew(found["output"], found["seed"]) if APPROVE else "")
        planned = {(name, tier): number(cases)
                   for name, tier, cases in PLANNED.findall(self.output_of("run", "--dry-run", "--seed", found["seed"]))}
        rows = list(RESULT.finditer(shown))
        self.assertGreater(len(rows), 5)
        for row in rows:
            self.assertEqual(number(row[3]) + int(row[4] or 0), planned[row[1], row[2]], row[0])
        scenarios, results, passed, cases = map(number, SUMMARY.search(shown).groups())
        self.assertEqual((scenarios, results, passed), (len({name for name, _ in planned}), len(planned), len(planned)))
        # A few of all cases are refused, in rows that are not shown.
        self.assertIn(cases, range(sum(planned.values()) * 99 // 100, sum(planned.values()) + 1))

    def test_the_picture_is_drawn_by_the_command_beside_it(self):
        shown = re.search(r"(?m)^!\[(?P<finding>[^]]+)\]\((?P<picture>[^)]+\.svg)\).*?`\./lockstep (?P<command>demo [^`]+)`", self.text, re.DOTALL)  # badges stand in links
        page = os.path.join(self.folder, "demo.html")
        self.output_of(*shown["command"].split(), "--html", page)
        with open(page, encoding="utf-8") as file:
            html = file.read()
        self.assertIn(">%s<" % shown["finding"], html)
        drawn, path = last_picture_of(html, shown["command"].split()[-1]), os.path.join(ROOT, shown["picture"])
        if APPROVE:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(drawn)
        with open(path, encoding="utf-8") as file:
            self.assertEqual(file.read(), drawn, "LOCKSTEP_APPROVE=1 writes it anew")

    def test_the_numbers_are_those_of_what_they_count(self):
        numbers = re.findall(r"(?m)^\| \*\*(.+)\*\* \| ", self.text)
        findings = re.findall(r"(?m)^\| \[\w+\]\((findings/\w+\.json)\)",
                              read("docs", "findings.md").partition("## Silent wrong numbers")[2].partition("\n## ")[0].partition("\nWhy, ")[0])
        for case in findings:
            self.assertTrue(os.path.exists(os.path.join(ROOT, "docs", case)), case)
        planted = sorted(name[:-5] for name in os.listdir(os.path.join(ROOT, "tests", "mutants")) if name.endswith(".toml"))
        caught = re.findall(r"(?m)^\| `(\w+)` \| .* \| `[\w.]+(?: on \w+)?` \| (?:fail|hang|crash|leak)\b", read("docs", "faults.md"))
        self.assertEqual(sorted(set(caught)), planted)
        summary = SUMMARY.search(CATALOGUE.search(self.text)["output"])
        loops = re.findall(r"(?m)^\|.*\| (\d+) \| (\d+) \| (\d+) \|[^|]*\|$", read("docs", "in_the_wild.md"))
        fail, remark, of = (sum(int(row[column]) for row in loops) for column in range(3))
        self.assertEqual(numbers, [str(len(findings)), "%d of %d" % (len(set(caught)), len(planted)), str(len(loops)), summary[1]])
        self.assertIn(" of %d mistakes that were planted in them %d fail and %d are remarked on" % (of, fail, remark), self.text)
        self.assertIn("[%s claims](" % summary[1], self.text)
        self.assertIn("| **%s** | claims hold of the library on %s cases " % (summary[1], summary[4]), self.text)


if __name__ == "__main__":
    unittest.main()
