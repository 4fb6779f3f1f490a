"""A rank that is killed while it records leaves what `judge` can read, which says so: never a pass, and never a crash.

usage: test_killed.py LOCKSTEP
"""

import json
import os
import random
import re
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

import peer
from peer import PYTHON

DRAWN = 12  # moments, besides the first records
# The first record that each invariant needs: without it there is nothing to compare.
NEEDS = {"parameters.are_the_same": b'"role":"parameters"', "gradients.are_the_same": b'"role":"gradients"',
         "optimizer.has_one_state": b'"role":"state"', "run.has_one_length": b'"name":"backward"',
         "data.is_partitioned": b'"name":"batch"', "collectives.have_one_order": b'"op":'}


class Killed(unittest.TestCase):
    lockstep = ""  # the program that judges

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="lockstep killed ")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        writes = int(re.search(r"^0: (\d+)$", cls.record("0:0"), re.M)[1])  # nobody is killed
        draw = random.Random(7)
        moments = [(at, draw.choice([0, 7, 20, 60, 1 << 20])) for at in (2, 3, 4, *draw.sample(range(5, writes), DRAWN), writes)]
        cls.moments = {at: size for at, size in [(1, 9), *moments]}
        cls.log = cls.record(*("%d:%d" % each for each in cls.moments.items()))

    @classmethod
    def record(cls, *moments):
        result = subprocess.run([PYTHON, "-B", os.path.join(HERE, "killed_ranks.py"), cls.folder, *moments], capture_output=True, text=True,
                                timeout=900, check=False)
        return result.stdout + result.stderr

    def judge(self, name):
        """The process that judged, and its results by invariant; none where it refuses the folder."""
        report = os.path.join(self.folder, "%s.json" % name)
        result = self.run_lockstep("judge", name, "--json", report)
        if result.returncode == 2:
            return result, {}
        with open(report, encoding="utf-8") as file:
            return result, {each["scenario"]: each for each in json.load(file)["results"]}

    def run_lockstep(self, command, name, *rest):
        return subprocess.run([self.lockstep, command, os.path.join(self.folder, str(name)), *rest], capture_output=True, text=True,
                              timeout=120, check=False)

    def test_nobody_killed_is_a_pass(self):
        result, results = self.judge(0)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertEqual(results["parameters.are_the_same"]["result"], "pass")

    def test_a_rank_killed_at_any_moment_is_named_and_no_pass(self):
        for at, size in self.moments.items():
            with self.subTest(write=at, bytes=size):
                result, results = self.judge(at)
                said = result.stdout + result.stderr
                if at == 1:  # not even its first record is whole
                    self.assertEqual(result.returncode, 2, said)
                    self.assertRegex(result.stderr, r"rank1\.history: \w.+")
                    continue
                self.assertIn(result.returncode, (1, 3), said)
                self.assertRegex(said, r"rank 1 (stopped .* without an ending|left no file)")
                self.assertIn(results["run.is_recorded_whole"]["result"], ("fail", "inconclusive", "skip"), said)
                failed = [invariant for invariant, each in results.items() if each["result"] == "fail"]
                self.assertTrue(set(failed) <= {"run.is_recorded_whole", "collectives.have_one_order"}, said)

    def test_what_one_rank_did_not_record_is_not_compared(self):
        for at in self.moments:
            with self.subTest(write=at):
                with open(os.path.join(self.folder, str(at), "rank1.history"), "rb") as file:
                    history = file.read()
                _, results = self.judge(at)
                for invariant, record in NEEDS.items() if results else ():
                    if record not in history:
                        self.assertNotEqual(results[invariant]["result"], "pass", invariant)

    def test_it_is_traced(self):
        for at in self.moments:
            with self.subTest(write=at):
                judged, traced = self.judge(at)[0].returncode, self.run_lockstep("trace", at)
                self.assertEqual(traced.returncode, 2 if judged == 2 else 0, traced.stderr)
                self.assertIn("rank1.history" if judged == 2 else "rank 1", traced.stdout + traced.stderr)


if __name__ == "__main__":
    peer.main(Killed)
