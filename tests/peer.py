"""Helpers of the tests of trainings in PyTorch: its Python, and the way in which their files are started."""

import os
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PYTHON = os.path.join(ROOT, ".venv-peer", "bin", "python")


def main(case):
    """Runs the tests of the program that was started, whose first argument is LOCKSTEP, the program that judges: `case.lockstep`.
    Exit code 77: PyTorch is not there."""
    if not os.path.exists(PYTHON):
        print("skipped: there is no .venv-peer: ./lockstep setup --peer makes it")
        sys.exit(77)
    case.lockstep = os.path.abspath(sys.argv.pop(1))
    unittest.main()
