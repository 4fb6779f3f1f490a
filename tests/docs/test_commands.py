#!/usr/bin/env python3
"""Checks docs/commands.md against the program: every command is there, and every command and flag there exists."""

import os
import re
import shlex
import subprocess
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = os.environ["LOCKSTEP_PROGRAM"]
OF_THE_TREE = {"setup", "build", "test", "docs"}  # of ./lockstep, which its usage lists


def output_of(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL, check=True, timeout=100).stdout


class Commands(unittest.TestCase):
    def setUp(self):
        with open(os.path.join(ROOT, "docs", "commands.md"), encoding="utf-8") as page:
            self.text = page.read()
        self.help = output_of(PROGRAM, "--help")
        self.commands = set(re.findall(r"(?m)^  (\w+)  ", self.help.partition("Subcommands:")[2].partition("Exit codes:")[0]))
        rows = re.findall(r"(?m)^\|[^|]+\| (.*) \|$", self.text)
        self.calls = [shlex.split(call.replace("\\|", "|")) for row in rows for call in re.findall(r"`([^`]*\./lockstep [^`]*)`", row)]

    def test_every_command_is_in_a_table(self):
        shown = {call[call.index("./lockstep") + 1].rstrip(";") for call in self.calls if "./lockstep" in call}
        self.assertEqual(self.commands - shown, {"completion"} - shown)
        self.assertIn("$(./lockstep completion bash)", self.text)
        self.assertEqual(shown - self.commands, OF_THE_TREE & shown)

    def test_the_commands_of_the_tree_are_those_of_its_usage(self):
        usage = output_of(os.path.join(ROOT, "lockstep"), "setup", "--help")
        self.assertEqual(set(re.findall(r"\./lockstep ([a-z]+)", usage)) - {"run"}, OF_THE_TREE)
        for command in OF_THE_TREE:
            self.assertIn("`./lockstep %s`" % command, self.text)

    def test_every_flag_that_is_shown_exists(self):
        checked = 0
        for call in self.calls:
            if "./lockstep" not in call or call[call.index("./lockstep") + 1] not in self.commands:
                continue
            command, *arguments = call[call.index("./lockstep") + 1:]
            flags = re.findall(r"(?m)^  (--?[\w-]+)", output_of(PROGRAM, command, "--help"))
            for argument in arguments:
                if argument in ("--", "|"):
                    break
                if argument.startswith("-"):
                    self.assertIn(argument, flags, call)
                    checked += 1
        self.assertGreater(checked, 20)

    def test_the_exit_codes_are_those_of_the_program(self):
        shown = re.findall(r"(?m)^\| (\d+) \|", self.text)
        self.assertEqual(shown, re.findall(r"(?m)^  (\d+) ", self.help.partition("Exit codes:")[2]))


if __name__ == "__main__":
    unittest.main()
