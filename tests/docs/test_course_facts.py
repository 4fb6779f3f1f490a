#!/usr/bin/env python3
"""Checks that pages of docs/course say of PyTorch's DDP what it does. It takes .venv-peer; without it this ends with 77, which
ctest reports as skipped."""

import json
import os
import re
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PEER = os.path.join(ROOT, ".venv-peer", "bin", "python")


class CourseFacts(unittest.TestCase):
    def test_step_7_says_what_an_unused_parameter_does_to_the_others(self):
        with open(os.path.join(ROOT, "docs/course/07-buckets.md"), encoding="utf-8") as page:
            rows = re.findall(r"(?m)^\| `(False|True)` \| ([\d.]+) \| ([\d.]+) \|$", page.read())
        said = {is_view: [[float(value)] for value in values] for is_view, *values in rows}
        ended = subprocess.run([PEER, "-B", os.path.join(HERE, "pytorch_unused.py")], stdout=subprocess.PIPE, text=True,
                               stdin=subprocess.DEVNULL, check=True, timeout=280)
        self.assertEqual(said, json.loads(ended.stdout))


if __name__ == "__main__":
    if not os.path.exists(PEER):
        print("skipped: there is no .venv-peer: ./lockstep setup --peer makes it")
        sys.exit(77)
    unittest.main()
