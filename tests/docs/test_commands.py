#!/usr/bin/env python3
"""Checks docs/commands.md, README.md and AGENTS.md against the program: every command is in the table, and every command and flag
that they show exists."""

import re
import subprocess
import unittest

from help_of import OF_THE_TREE, ROOT, calls_in, commands, exit_codes, read, unknown_in


class Commands(unittest.TestCase):
    def setUp(self):
        self.text = read("docs", "commands.md")

    def test_every_command_is_in_a_table(self):
        shown = {call[1].rstrip(";") for row in re.findall(r"(?m)^\|[^|]+\| (.*) \|$", self.text) for call in calls_in(row)}
        self.assertEqual(commands() - shown, set())
        self.assertEqual(shown - commands(), OF_THE_TREE)

    def test_the_commands_of_the_tree_are_those_of_its_usage(self):
        usage = subprocess.run([ROOT + "/lockstep", "setup", "--help"], stdout=subprocess.PIPE, text=True, check=True, timeout=100).stdout
        self.assertEqual(set(re.findall(r"\./lockstep ([a-z]+)", usage)) - {"run"}, OF_THE_TREE)

    def test_every_command_and_flag_that_a_page_shows_exists(self):
        for name in ("docs/commands.md", "docs/ci.md", "README.md", "AGENTS.md"):
            calls = calls_in(read(name))
            self.assertGreater(len(calls), 3, name)
            self.assertEqual(list(unknown_in(calls)), [], name)
        self.assertEqual(list(unknown_in(calls_in("lockstep rnu\n`./lockstep run --sede 7 -q`"))), ["rnu", "run --sede"])

    def test_the_exit_codes_are_those_of_the_program(self):
        self.assertEqual(re.findall(r"(?m)^\| (\d+) \|", self.text), exit_codes())
        line = re.search(r"Exit codes: (.*)", read("AGENTS.md"))[1]
        self.assertEqual(re.findall(r"(?:^|; )(\d+) ", line), exit_codes())


if __name__ == "__main__":
    unittest.main()
