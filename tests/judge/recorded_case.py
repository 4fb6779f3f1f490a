"""Trainings that are recorded once for all tests of a class, and judged by each.

With LOCKSTEP_RECORDINGS=FOLDER recordings are kept there, and what is there is not recorded again: for work on what judges alone.
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

import peer
from peer import PYTHON, ROOT


class RecordedCase(unittest.TestCase):
    lockstep = ""  # the program that judges

    @classmethod
    def record(cls, prefix, script, wanted, seconds=600):
        """Records each NAME:WORLD of the script into folder/NAME-WORLD."""
        kept = os.environ.get("LOCKSTEP_RECORDINGS")
        if kept:
            cls.folder, cls.log = os.path.join(kept, prefix + os.path.basename(script)), ""
            if os.path.exists(cls.folder):
                return
            os.makedirs(cls.folder)
        else:
            folder = tempfile.TemporaryDirectory(prefix=prefix)
            cls.addClassCleanup(folder.cleanup)
            cls.folder = folder.name
        result = subprocess.run([PYTHON, os.path.join(HERE, script), cls.folder, *wanted], capture_output=True, text=True,
                                timeout=seconds, check=False)
        cls.log = result.stdout + result.stderr

    def judge(self, name, *flags, statuses):
        """The process that judged, which ended with one of these statuses, and its results by invariant."""
        report = os.path.join(self.folder, name + ".json")
        result = subprocess.run([self.lockstep, "judge", os.path.join(self.folder, name), "--json", report, *flags],
                                capture_output=True, text=True, timeout=120, check=False)
        self.assertIn(result.returncode, statuses, result.stderr + self.log[-3000:])
        with open(report, encoding="utf-8") as file:
            return result, {each["scenario"]: each for each in json.load(file)["results"]}


def main():
    """Runs the tests of the program that was started: peer.main."""
    peer.main(RecordedCase)
