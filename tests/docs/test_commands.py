#!/usr/bin/env python3
"""Checks docs/commands.md, docs/conventions.md, README.md and AGENTS.md against the program: every command is in the table, and every command and flag
that they show exists."""

import os
import re
import subprocess
import tempfile
import unittest

from help_of import OF_THE_TREE, PROGRAM, ROOT, calls_in, commands, exit_codes, help_of, read, unknown_in


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
        for name in ("docs/commands.md", "docs/conventions.md", "docs/ci.md", "README.md", "AGENTS.md"):
            calls = calls_in(read(name))
            self.assertGreater(len(calls), 3, name)
            self.assertEqual(list(unknown_in(calls)), [], name)
        self.assertEqual(list(unknown_in(calls_in("lockstep rnu\n`./lockstep run --sede 7 -q`"))), ["rnu", "run --sede"])

    def test_every_file_that_the_conventions_name_exists(self):
        named = re.findall(r"`(\.?[A-Za-z_]+(?:\.[a-z]+)?)`", read("docs", "conventions.md"))
        files = [name for name in named if "." in name and name not in ("run.json", "lockstep.toml") or name == ".github"]
        self.assertGreater(len(files), 8)
        self.assertEqual([name for name in files if not os.path.exists(os.path.join(ROOT, name))], [])

    def test_every_convention_is_here_or_has_its_reason(self):
        rows = re.findall(r"(?m)^\| (?!convention)([^|]+) \| (.+) \|$", read("docs", "conventions.md"))
        self.assertEqual(len({row[0] for row in rows}), len(rows))
        self.assertGreater(len(rows), 60)
        self.assertEqual([name for name, here in rows if re.match(r"no\b|in part", here) and ":" not in here], [])

    def test_every_example_of_the_help_exists(self):
        for command in ((), *((each,) for each in sorted(commands()))):
            examples = help_of(*command).partition("Examples:\n")[2]
            self.assertEqual(list(unknown_in(calls_in(examples))), [], command)
        self.assertGreater(len(calls_in(help_of("run").partition("Examples:\n")[2])), 1)

    def test_a_run_takes_the_file_of_defaults_that_the_page_shows(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "lockstep.toml"), "w", encoding="utf-8") as file:
                file.write(re.search(r"(?s)```toml\n(.*?)```", self.text)[1])
            for arguments, status in ((("run", "--dry-run"), 0), (("judge", "absent"), 2)):
                ended = subprocess.run([PROGRAM, *arguments], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                       stdin=subprocess.DEVNULL, check=False, timeout=100)
                self.assertEqual(ended.returncode, status, ended.stderr)
                self.assertNotIn("lockstep.toml:", ended.stderr)

    def test_the_exit_codes_are_those_of_the_program(self):
        self.assertEqual(re.findall(r"(?m)^\| (\d+) \|", self.text), exit_codes())
        line = re.search(r"Exit codes: (.*)", read("AGENTS.md"))[1]
        self.assertEqual(re.findall(r"(?:^|; )(\d+) ", line), exit_codes())


if __name__ == "__main__":
    unittest.main()
