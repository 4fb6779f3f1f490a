"""The commands and flags of the program that LOCKSTEP_PROGRAM names, and calls of it that a text shows."""

import functools
import os
import re
import shlex
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = os.environ.get("LOCKSTEP_PROGRAM", "")
OF_THE_TREE = {"setup", "build", "test", "docs", "faults"}  # of ./lockstep, which its usage lists


def read(*names):
    with open(os.path.join(ROOT, *names), encoding="utf-8") as file:
        return file.read()


@functools.lru_cache(maxsize=None)
def help_of(*command):
    return subprocess.run([PROGRAM, *command, "--help"], stdout=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL, check=True,
                          timeout=100).stdout


def commands():
    return set(re.findall(r"(?m)^  (\w+)  ", help_of().partition("Subcommands:")[2].partition("Exit codes:")[0]))


def exit_codes():
    return re.findall(r"(?m)^  (\d+) ", help_of().partition("Exit codes:")[2])


def calls_in(text):
    """The words of every call of the program, from its name on: of lines that begin with it, and of code within a line."""
    found = re.findall(r"(?m)(?:^[-\s$]*(?:run: |- )?|`|&& |\$\()((?:\./)?lockstep [a-z][^`\n)]*)", text)
    return [shlex.split(call.replace("\\|", "|").partition("  #")[0], comments=False) for call in found]


def unknown_in(calls):
    """The parts of a call that the program does not have: a command, or a flag before the command that it starts."""
    for name, command, *arguments in calls:
        if command in OF_THE_TREE and name == "./lockstep":
            continue
        if command not in commands():
            yield command
            continue
        values = {flag: bool(value) for flag, value in re.findall(r"(?m)^  (--?[\w-]+)(?: ([A-Z]))?", help_of(command))}
        arguments = iter(arguments)
        for argument in arguments:
            flag = argument.partition("=")[0]
            if argument in ("--", "|", "||", ">", "&&") or command in ("launch", "record") and not flag.startswith("-"):
                break
            if flag.startswith("-") and flag not in values:
                yield "%s %s" % (command, flag)
            elif values.get(argument):
                next(arguments, "")
