#!/usr/bin/env python3
"""Prints what has to be built for the tests that a filter of ctest selects; nothing where all has to be.

usage: test_targets.py BUILD ARGUMENT...

A label has a target of its own, tests_LABEL. The tests of a program that is not built yet are not known: then its one test
PROGRAM_NOT_BUILT stands for them, and a filter that selects nothing else builds all.
"""

import json
import os
import re
import subprocess
import sys

FILTERS = ("-R", "--tests-regex", "-L", "--label-regex")


def outputs_of(build):
    """The files that ninja makes, by path below the build folder or by name."""
    listed = subprocess.run(["ninja", "-C", build, "-t", "targets", "all"], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"(?m)^(\S+): ", listed))


def selected(build, arguments):
    """The tests that the arguments select."""
    listed = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1", *arguments], capture_output=True, text=True, check=False)
    return json.loads(listed.stdout)["tests"] if listed.returncode == 0 else []


def paths_of(test):
    """The files that its command and its environment name."""
    yield from test.get("command", [])
    for each in test.get("properties", []):
        if each["name"] == "ENVIRONMENT":
            for assignment in each["value"]:
                yield assignment.partition("=")[2]


def main():
    """Targets for ninja, one a line."""
    build, arguments = os.path.abspath(sys.argv[1]), sys.argv[2:]
    if not any(argument.startswith(FILTERS) for argument in arguments):
        return
    outputs, targets = outputs_of(build), set()
    for flag, value in zip(arguments, arguments[1:]):
        if flag in ("-L", "--label-regex") and "tests_" + value in outputs:
            print("tests_" + value)
            return
    for test in selected(build, arguments):
        name = test["name"]
        if name.endswith("_NOT_BUILT"):
            targets.add(name.removesuffix("_NOT_BUILT"))
        for path in paths_of(test):
            below = os.path.relpath(path, build) if os.path.isabs(path) else ""
            if below in outputs:
                targets.add(below)
    for target in sorted(targets):
        print(target)


if __name__ == "__main__":
    main()
