"""Completion and the manual page hold every command and flag that --help prints, and bash completes with the script."""

import os
import re
import shutil
import subprocess
import unittest

from program_case import PROGRAM, ProgramCase

COMPLETE = """eval "$1"; shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
_lockstep_toys
printf '%s\\n' "${COMPREPLY[@]}"
"""


class Completing(ProgramCase):
    flags = {}  # by command, once for all tests

    def output_of(self, *arguments):
        status, out, err = self.finish(self.start_as_given(*arguments))
        self.assertEqual((status, err), (0, ""), arguments)
        return out

    def flags_by_command(self):
        if self.flags:
            return self.flags
        commands = re.findall(r"(?m)^  (\w+)  ", self.output_of("--help").partition("Subcommands:")[2].partition("Exit codes:")[0])
        self.assertGreater(len(commands), 14)
        for command in commands:
            self.flags[command] = [flag for flag in re.findall(r"(?m)^  (--?[\w-]+)", self.output_of(command, "--help")) if flag != "-h"]
        return self.flags

    def completed(self, script, *words):
        ended = subprocess.run(["bash", "-c", COMPLETE, "-", script, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True, env=self.environment, check=False, timeout=60)
        self.assertEqual(ended.stderr, "")
        return ended.stdout.split()

    def test_bash_completes_commands_flags_values_and_names(self):
        script = self.output_of("completion", "bash")
        self.assertIn("complete -o default -F _lockstep_toys lockstep_toys\n", script)
        for words, expected in (
                (["ju"], ["judge"]),
                (["run", "--ti"], ["--tier", "--timeout"]),
                (["run", "--tier", "si"], ["sim"]),
                (["run", "--tier", "sim,w"], ["sim,warm"]),
                (["run", "--tier", "="], ["sim", "warm", "cold", "launched"]),
                (["run", "--tier", "=", "co"], ["cold"]),
                (["run", "--format", "j"], ["json"]),
                (["run", "--out", ""], []),  # files, which are bash's own
                (["run", "toys.mul"], ["toys.multiply"]),
                (["judge", ""], [])):
            self.assertEqual(self.completed(script, "lockstep_toys", *words), expected, words)
        for command, flags in self.flags_by_command().items():
            found = self.completed(script, "lockstep_toys", command, "-")
            for flag in flags:
                self.assertIn(flag, found, command)

    def test_zsh_and_fish_have_every_flag(self):
        zsh, fish = self.output_of("completion", "zsh"), self.output_of("completion", "fish")
        for command, flags in self.flags_by_command().items():
            part = re.search(r"(?ms)^    %s\)\n(.*?)^      ;;\n" % command, zsh)[1]
            lines = [line for line in fish.splitlines() if "seen_subcommand_from %s'" % command in line]
            for flag in flags:
                self.assertIn("'*%s[" % flag, part, command)
                name = " -l " + flag[2:] if flag.startswith("--") else " -s " + flag[1:]
                self.assertTrue(any(name + " " in line for line in lines), (command, flag))
        for shell, script in (("zsh", zsh), ("fish", fish)):
            if shutil.which(shell):
                subprocess.run([shell, "-n"], input=script, text=True, check=True, timeout=60)

    def test_another_shell_is_refused_with_those_that_there_are(self):
        status, out, err = self.finish(self.start_as_given("completion", "tcsh"))
        self.assertEqual((status, out), (2, ""))
        self.assertIn("; known: bash, zsh, fish", err)

    def test_the_manual_page_has_every_flag_with_its_variable(self):
        page = self.output_of("man")
        for command, flags in self.flags_by_command().items():
            part = page.partition(".SS %s\n" % command)[2].partition("\n.S")[0]
            for flag in flags:
                self.assertIn("\\fB%s\\fR" % flag.replace("-", "\\-"), part, command)
                variable = "LOCKSTEP_%s_%s" % (command.upper(), flag.lstrip("-").replace("-", "_").upper())
                self.assertRegex(part, r"\b%s\b" % variable)
        if shutil.which("groff"):
            ended = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z"], input=page, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True, check=False, timeout=60)
            self.assertEqual((ended.returncode, ended.stdout), (0, ""))


class Installing(ProgramCase):
    """`cmake --install` of the build that the program is in."""

    def test_the_scripts_and_the_page_are_installed_as_the_program_prints_them(self):
        build = os.path.dirname(os.path.dirname(os.path.realpath(PROGRAM)))
        subprocess.run(["cmake", "--install", build, "--prefix", self.folder, "--component", "shell"], check=True, timeout=120,
                       stdout=subprocess.DEVNULL)
        for path, command in (("share/bash-completion/completions/lockstep", ["completion", "bash"]),
                              ("share/zsh/site-functions/_lockstep", ["completion", "zsh"]),
                              ("share/fish/vendor_completions.d/lockstep.fish", ["completion", "fish"]),
                              ("share/man/man1/lockstep.1", ["man"])):
            status, out, err = self.run_program(*command)
            self.assertEqual((status, err), (0, ""))
            self.assertTrue(out)
            with open(os.path.join(self.folder, path), encoding="utf-8") as file:
                self.assertEqual(file.read(), out, path)


if __name__ == "__main__":
    unittest.main()
