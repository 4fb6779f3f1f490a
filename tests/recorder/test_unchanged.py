"""Programs run under the recorder of Python as they do without it: the same output, to the last bit of a weight, and the same
exit status; and `judge` can read what was recorded.

usage: test_unchanged.py LOCKSTEP
"""

import os
import re
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

import peer
from peer import PYTHON

# Events of a program that the recorder leaves out, and says so.
LEFT_OUT = {}
TIME = re.compile(rb"\d\d:\d\d:\d\d\.\d+( \d+)?")


def content(*path):
    with open(os.path.join(*path), "rb") as file:
        return file.read()


class Unchanged(unittest.TestCase):
    lockstep = ""  # the program that judges

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="lockstep unchanged ")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        result = subprocess.run([PYTHON, "-B", os.path.join(HERE, "watched_programs.py"), cls.folder], capture_output=True, text=True,
                                timeout=1700, check=False)
        cls.log = result.stdout + result.stderr
        cls.names = sorted(name for name in os.listdir(cls.folder) if os.path.isdir(os.path.join(cls.folder, name, "plain")))

    def test_each_program_prints_and_ends_as_without_a_recorder(self):
        self.assertGreaterEqual(len(self.names), 70, self.log[-3000:])
        for name in self.names:
            for rank in (0, 1):
                with self.subTest(program=name, rank=rank):
                    (status, said), (status_recorded, said_recorded) = (
                        [content(self.folder, name, kind, "rank%d.%s" % (rank, what)) for what in ("status", "out")]
                        for kind in ("plain", "recorded"))
                    errors = content(self.folder, name, "recorded", "rank%d.err" % rank).decode(errors="replace")[-2000:]
                    self.assertEqual((status_recorded, said_recorded), (status, said), errors)

    def test_each_error_is_the_programs(self):
        for name in self.names:
            for rank in (0, 1):
                with self.subTest(program=name, rank=rank):
                    last, last_recorded = (TIME.sub(b"", content(self.folder, name, kind, "rank%d.err" % rank)).splitlines()[-1:]
                                           for kind in ("plain", "recorded"))
                    self.assertEqual(last_recorded, last)

    def test_all_of_a_program_is_recorded_or_said_to_be_left_out(self):
        for name in self.names:
            with self.subTest(program=name):
                history = content(self.folder, name, "recorded", "run", "rank0.history")
                said = {text.decode() for text in re.findall(rb'"name":"not recorded","values":\{"what":"([^"]*)"', history)}
                self.assertEqual(said, LEFT_OUT.get(name, set()), history[-300:])

    def test_judge_reads_each_record(self):
        for name in self.names:
            with self.subTest(program=name):
                result = subprocess.run([self.lockstep, "judge", os.path.join(self.folder, name, "recorded", "run")],
                                        capture_output=True, text=True, timeout=120, check=False)
                self.assertIn(result.returncode, (0, 1, 3, 77), result.stderr)


if __name__ == "__main__":
    peer.main(Unchanged)
