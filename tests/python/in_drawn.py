#!/usr/bin/env python3
"""Drawn tests with planted hangs, deaths, exceptions and leaks: each is named rightly, and the test after it passes.

usage: in_drawn.py PYTHON [TEST ...]     PYTHON is of an environment that has the package, PyTorch, pytest and pytest-xdist
LOCKSTEP_DRAWN is how many are drawn (default: 24, as many as CI has time for; the sum of drawn.COUNTS has each kind's share), LOCKSTEP_SEED from what.
"""

import os
import re
import sys
import unittest

import drawn
import project

FILES = 4  # At a time, since most wait.


class Drawn(project.Project):
    def check(self, tier):
        cases = drawn.drawn(int(os.environ.get("LOCKSTEP_DRAWN", "24")), int(os.environ.get("LOCKSTEP_SEED", "1")))
        if tier == "sim":
            cases = [case for case in cases if not any(each in "\n".join(case.lines) for each in drawn.MAIN_THREAD)]
        files = [f"test_drawn{number}.py" for number in range(FILES)]
        for number, name in enumerate(files):
            self.write(name, drawn.file_of(cases[number::FILES], tier))
        _, said, results = self.pytest("--lockstep-tier", tier, files=files)
        self.assertEqual(len(results), 1 + 2 * len(cases), said)
        named = 0
        for case in cases:
            with self.subTest(case=case.name, tier=tier):
                kind, text = results[f"test_{case.name}[world{case.size}]"]
                context = "\n".join(case.lines) + "\n" + text
                if case.kind == "leak":
                    self.assertEqual(kind, "passed", context)
                    told = [line for line in said.splitlines() if re.search(rf"::test_{case.name}\[world{case.size}\]: (left|the default group)", line)]
                    is_own = tier == "cold" or tier == "sim" and any(each in "\n".join(case.lines) for each in drawn.OWN_OF_SIMULATED)
                    self.assertEqual(len(told), int(not is_own), context)
                    # A simulated world says what was left, and not by which of its ranks.
                    expected = case.says if tier == "warm" else re.sub(r" on rank \d+\.\*", "", case.says)
                    self.assert_says("".join(told), *([expected] if told else []))
                else:
                    self.assertEqual(kind, "failure", context)
                    self.assert_says(text + "\n" + "\n".join(case.lines), *case.expected(tier))
                self.assertEqual(results[f"test_after_{case.name}[world{case.size}]"][0], "passed", context)
                named += 1
        self.assertNotIn("::test_after", said)
        self.assert_nothing_is_left()
        print(f"{tier}: {named} of {len(cases)} named rightly", file=sys.stderr)

    def test_cold(self):
        self.check("cold")

    def test_warm(self):
        self.check("warm")

    def test_simulated(self):
        self.check("sim")


if __name__ == "__main__":
    project.PYTHON = os.path.abspath(sys.argv.pop(1))
    unittest.main()
