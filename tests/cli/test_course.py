"""The pages of docs/course: each has one command, and what it prints. LOCKSTEP_APPROVE=1 writes that anew."""

import os
import re
import shlex
import unittest

from program_case import APPROVE, HERE, PROGRAM, ProgramCase

COURSE = os.path.join(os.path.dirname(os.path.dirname(HERE)), "docs", "course")
STEPS = 14
WORDS = 12  # of the index
EXAMPLE = re.compile(r"```sh\n\./lockstep (?P<command>demo [^\n]+)\n```\n\n```text\n(?P<output>.*?)```\n", re.DOTALL)
OTHER_COMMANDS = re.compile(r"`\./lockstep (demo [^`\n]+)`")
GUESS = re.compile(r"`\./lockstep (demo [\w-]+ --guess)` asks another one")


def read(page):
    with open(os.path.join(COURSE, page), encoding="utf-8") as file:
        return file.read()


class Course(ProgramCase):
    def pages(self):
        return sorted(name for name in os.listdir(COURSE) if name != "README.md")

    def output_of(self, command):
        status, out, err = self.run_program(*shlex.split(command))
        self.assertEqual((status, err), (1 if "--wrong" in command else 0, ""), command)
        return out.replace(PROGRAM, "./lockstep")

    def test_every_page_shows_what_its_command_prints(self):
        self.assertEqual(len(self.pages()), STEPS)
        for page in self.pages():
            with self.subTest(page):
                text = read(page)
                examples = list(EXAMPLE.finditer(text))
                self.assertEqual(len(examples), 1)
                out = self.output_of(examples[0]["command"])
                if APPROVE:
                    text = text[:examples[0].start("output")] + out + text[examples[0].end("output"):]
                    with open(os.path.join(COURSE, page), "w", encoding="utf-8") as file:
                        file.write(text)
                self.assertEqual(EXAMPLE.search(read(page))["output"], out)

    def test_the_list_has_the_titles_commands_and_pages(self):
        expected = []
        for number, page in enumerate(self.pages(), 1):
            text = read(page)
            self.assertTrue(page.startswith("%02d-" % number))
            title = re.match(r"# (\d+\. [^\n]+)\n", text)[1]
            self.assertTrue(title.startswith("%d. " % number))
            expected.append((title, "./lockstep " + EXAMPLE.search(text)["command"], "docs/course/" + page))
        listed = [tuple(re.split(r" {2,}", line.strip())) for line in self.output_of("list --course").splitlines()]
        self.assertEqual(listed, expected)

    def test_the_index_has_every_step_and_twelve_words(self):
        index = read("README.md")
        steps = re.findall(r"(?m)^\| [^|]*\| \[(\d+\. [^\]]+)\]\(([^)]+)\) \| [^|]+ \|$", index)
        self.assertEqual(steps, [(re.match(r"# ([^\n]+)", read(page))[1], page) for page in self.pages()])
        words = re.findall(r"(?m)^\| ([\w -]+) \| [^|]+ \| (\d+) \|$", index)
        self.assertEqual(len(words), WORDS)
        for word, first in words:
            uses = [number for number, page in enumerate(self.pages(), 1)
                    if re.search(r"\b%ss?\b" % word, read(page).replace("\n", " "), re.IGNORECASE)]
            self.assertIn(int(first), uses, word)

    def test_every_page_has_a_claim_a_question_a_guess_a_hidden_answer_and_sources(self):
        known = self.output_of("demo") + self.output_of("demo beliefs")
        for number, page in enumerate(self.pages()):
            text = read(page)
            parts = ("**An article's claim.** ", "**Run it.** ", "<summary>The same in C++</summary>", "**The picture.** ",
                     "**Question.** ", "<summary>Answer</summary>", "**Sources.** ")
            for part in parts:
                self.assertEqual(text.count(part), 1, (page, part))
            self.assertEqual(sorted(parts, key=text.index), list(parts), page)
            self.assertIn("](http", text[text.index(parts[-1]):])
            others = self.pages()
            for neighbour in others[max(0, number - 1):number] + others[number + 1:number + 2] + ["README.md"]:
                self.assertIn("](%s)" % neighbour, text, page)
            for command in OTHER_COMMANDS.findall(text.replace("./lockstep\n", "./lockstep ")):
                self.assertRegex(known, r"(?m)^(?:\d+\. )?%s\s" % shlex.split(command)[1], command)

    def test_every_page_names_the_guess_of_its_picture(self):
        for page in self.pages():
            guess = shlex.split(GUESS.search(read(page))[1])
            self.assertEqual(guess[1], shlex.split(EXAMPLE.search(read(page))["command"])[1], page)
            status, out, _ = self.run_program(*guess)  # Nobody answers.
            self.assertEqual(status, 0, page)
            self.assertRegex(out.replace("\n  ", " "), r"\A[^>]*\?\n> It is ", page)

    def test_the_list_of_the_course_takes_no_selection(self):
        status, _, err = self.run_program("list", "--course", "--tag", "core")
        self.assertEqual(status, 2)
        self.assertIn("--course lists the course", err)


if __name__ == "__main__":
    unittest.main()
