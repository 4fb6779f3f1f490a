"""Checks what bench/beside_pytorch.py says where it cannot compare, and how it says what it found."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BENCH = os.path.join(ROOT, "bench")
sys.path.insert(0, BENCH)

import beside_pytorch  # It lies in another folder.


class Refusals(unittest.TestCase):
    def setUp(self):
        self.tree = tempfile.mkdtemp(prefix="lockstep bench ")
        self.addCleanup(shutil.rmtree, self.tree)
        os.mkdir(os.path.join(self.tree, "bench"))
        shutil.copy(os.path.join(BENCH, "beside_pytorch.py"), os.path.join(self.tree, "bench"))

    def start(self, *arguments):
        command = [sys.executable, "-B", os.path.join(self.tree, "bench", "beside_pytorch.py"), *arguments]
        return subprocess.run(command, text=True, capture_output=True, timeout=60, check=False)

    def make_peer(self, complete):
        os.mkdir(os.path.join(self.tree, ".venv-peer"))
        if complete:
            with open(os.path.join(self.tree, ".venv-peer", ".complete"), "w", encoding="utf-8"):
                pass

    def test_without_a_whole_peer_environment_it_skips_and_says_what_makes_one(self):
        for half_made in (False, True):
            if half_made:
                self.make_peer(complete=False)
            result = self.start()
            self.assertEqual(result.returncode, 77, result.stderr)
            self.assertIn("./lockstep setup --peer", result.stdout)

    def test_without_our_side_it_says_what_builds_it(self):
        self.make_peer(complete=True)
        result = self.start("--build", os.path.join(self.tree, "nothing"))
        self.assertEqual(result.returncode, 2)
        self.assertIn("nothing/bench/bench_worlds: run ./lockstep build", result.stderr)

    def test_no_rounds_and_no_cases_are_refused(self):
        for flag in ("--rounds", "--cases"):
            self.assertEqual(self.start(flag, "0").returncode, 2)


class Saying(unittest.TestCase):
    def test_a_ratio_is_the_median_of_the_rounds_ratios_not_the_ratio_of_medians(self):
        pair = beside_pytorch.Pair("cold", 200, "MultiProcessTestCase", 2)
        self.assertEqual(
            beside_pytorch.line(pair, [(100.0, 1.0), (90.0, 0.3), (10.0, 0.5)]),
            "cold is 100.0 x MultiProcessTestCase   90.0 and 0.50 cases/s   ratios 20.0 to 300.0   "
            "200 and 2 cases a round")

    def test_what_was_compared_is_named_behind_the_harness(self):
        pair = beside_pytorch.Pair("warm", 4, "MultiProcContinuousTest", 4)
        self.assertTrue(beside_pytorch.line(pair, [(30.0, 2.0)], ", all of it").startswith(
            "warm is 15.0 x MultiProcContinuousTest, all of it   30.0 and 2.00 cases/s"))


if __name__ == "__main__":
    unittest.main()
