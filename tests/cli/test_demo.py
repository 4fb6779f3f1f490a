"""The demonstrations of Lockstep's own program, word for word at 80 columns: golden/demo_*.txt are the specification, and the
pages of docs/course of those that they show."""

import html.parser
import os
import subprocess
import unittest

from program_case import PATIENCE_S, PROGRAM, ProgramCase
from test_course import COURSE, EXAMPLE, read


class Tags(html.parser.HTMLParser):
    """The content of a page: its tags with their attributes, and its text."""

    def __init__(self):
        super().__init__()
        self.tags, self.text = [], ""

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data

    def count(self, tag):
        return sum(each == tag for each, _ in self.tags)


# Their times are virtual, so that real processes do not have them.
IN_VIRTUAL_TIME = ("overlap", "scale")


class DemoCase(ProgramCase):
    @staticmethod
    def quick(name):
        """The command of a demonstration with a world that takes no seconds."""
        return ["demo", name] + (["--set", "world=16"] if name == "scale" else [])

    def names(self):
        status, out, _ = self.run_program("demo")
        self.assertEqual(status, 0)
        return [line.split()[1] for line in out.splitlines()]

    @staticmethod
    def shown_in_course(name):
        for page in os.listdir(COURSE):
            example = EXAMPLE.search(read(page))
            if example and example["command"] == "demo " + name:
                return "$ lockstep demo %s\n%sexit 0\n" % (name, example["output"])
        return None

    def mistakes_of(self, name):
        _, out, _ = self.run_program("demo", name, "--settings")
        return [line.split()[1] for line in out.splitlines() if line.startswith("  --wrong ")]


class Demos(DemoCase):
    def test_each_with_and_without_unicode_and_in_colour(self):
        for name in self.names():
            with self.subTest(name):
                text = self.transcript("demo", name)
                self.assertTrue(all(len(line) <= 80 for line in text.splitlines()), text)
                if shown := self.shown_in_course(name):
                    self.assertEqual(text, shown, "test_course.py approves what it says now")
                else:
                    self.assert_golden("demo_" + name, text)
                plain = self.transcript("demo", name, LC_ALL="C")
                self.assertTrue(plain.isascii())
                self.assertEqual(plain.count("\n"), text.count("\n"))
                coloured = self.transcript("demo", name, "--color", "always").split("\n", 1)[1]
                self.assertIn("\033[", coloured)
                self.assertEqual(self.without_colour(coloured), text.split("\n", 1)[1])

    @staticmethod
    def without_colour(text):
        parts = text.split("\033[")
        return parts[0] + "".join(part.split("m", 1)[1] for part in parts[1:])


class Mistakes(DemoCase):
    def test_each_has_a_story(self):
        """The first whole. Of the others what differs: the first of a demonstration without what its right run says too, of
        further ones the command, the headline, what is planted and what the checks say."""
        for name in self.names():
            with self.subTest(name):
                first, *others = (self.transcript(*self.quick(name), "--wrong", mistake) for mistake in self.mistakes_of(name))
                self.assertTrue(all(each.endswith("\nexit 1\n") for each in (first, *others)), others)
                if name != self.names()[0]:
                    parts = first.split("\n\n")
                    first = "\n\n".join([parts[0], *parts[2:-1]]) + "\n"
                self.assert_golden("demo_" + name + "_wrong", first + "".join(map(self.story_of, others)))

    @staticmethod
    def story_of(text):
        parts = text.split("\n\n")
        return "\n\n".join([parts[0], *(part for part in parts if part.startswith("The checks say:"))]) + "\n"


class Talking(DemoCase):
    def test_the_list_and_the_settings_of_each_kind(self):
        self.assert_golden("demo", self.transcript("demo") + "".join(
            self.transcript("demo", name, "--settings") for name in ("sampler", "average", "reference")))

    def test_a_guess_is_answered_before_the_picture(self):
        for answer, expected in (("5", "> Right: 5.\n"), (" 5.0.", "> Right: 5.\n"), ("9", "> It is 5, not 9.\n"), ("", "> It is 5.\n")):
            done = subprocess.run([PROGRAM, "demo", "sampler", "--guess"], input=answer + "\n", capture_output=True,
                                  text=True, cwd=self.folder, env=self.environment, timeout=PATIENCE_S, check=False)
            self.assertEqual(done.returncode, 0)
            self.assertIn(expected, done.stdout)
            self.assertLess(done.stdout.index(expected), done.stdout.index("epoch 0  "))

    def test_the_reason_for_an_answer_names_no_mistake_where_none_is_planted(self):
        for name in self.names():
            status, out, _ = self.run_program(*self.quick(name), "--guess")
            self.assertEqual(status, 0, name)
            self.assertNotIn("planted", out.split("\n\n")[0].split("\nWhy: ")[1], name)

    def test_one_sentence_for_each_mistake_of_the_command_line(self):
        self.assert_golden("demo_refusals", "".join(self.transcript("demo", *arguments) for arguments in (
            ["smapler"], ["sampler", "--set", "wrold=2"], ["sampler", "--set", "world=9"],
            ["sampler", "--set", "world=two"], ["sampler", "--set", "world"],
            ["sampler", "--set", "world=2", "--set", "world=3"], ["sampler", "--set", "drop_last=true", "--set", "samples=1"],
            ["sampler", "--wrong", "set_epoch"], ["sampler", "--open"], ["sampler", "--html", "no/such/x"],
            ["sampler", "--tier", "launched"], ["sampler", "--tier", "sim,cold"], ["sampler", "--subject", "pytroch"],
            ["all"], ["all", "--html", "x", "--wrong", "y"], ["sampler", "--color", "pink"], ["buffers", "--subject", "naive"], ["--set", "world=2"],
            ["faults", "--set", "samples=[2,1]"], ["hang", "--set", "world=3", "--set", "rank=3"])))


class Pages(DemoCase):
    def test_each_holds_what_the_terminal_says(self):
        for name in self.names():
            with self.subTest(name):
                path = os.path.join(self.folder, name + ".html")
                status, out, err = self.run_program(*self.quick(name), "--html", path, "--color", "never")
                self.assertEqual((status, err), (0, ""))
                with open(path, encoding="utf-8") as file:
                    text = file.read()
                page = Tags()
                page.feed(text)
                finding = " ".join(out.split("\n\n")[0].split())
                self.assertIn(finding, page.text)
                self.assertEqual((page.count("script"), page.count("link") + page.count("img")), (1, 0))
                self.assertFalse([tag for tag, attributes in page.tags if {"src", "href", "onclick"} & set(attributes)])
                self.assertEqual(page.count("figure"), page.count("details"))
                self.assertGreaterEqual(page.count("svg"), page.count("figure"))
                for mistake in self.mistakes_of(name):
                    self.assertIn("demo %s %s--wrong %s" % (name, "--set world=16 " if name == "scale" else "", mistake), page.text)
                self.assertLess(len(text), 1_000_000)

    def test_real_processes_give_the_same_picture(self):
        for name in set(self.names()) - set(IN_VIRTUAL_TIME) - {"hang"}:  # which hangs until the deadline
            forked = self.transcript("demo", name, "--tier", "cold").split("\n", 1)[1]
            self.assertEqual(forked, (self.shown_in_course(name) or self.golden("demo_" + name)).split("\n", 1)[1])

    def test_real_processes_have_no_virtual_time(self):
        for name in IN_VIRTUAL_TIME:
            for tier in ("warm", "cold"):
                status, out, err = self.run_program("demo", name, "--tier", tier)
                self.assertEqual((status, out), (2, ""))
                self.assertIn(name + " shows virtual time, which only simulated worlds have", err)


if __name__ == "__main__":
    unittest.main()
