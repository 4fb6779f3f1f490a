"""How bench/cifar10.py says what it found, and what it says where it cannot compare."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BENCH = os.path.join(ROOT, "bench")
sys.path.insert(0, BENCH)

import cifar10  # It lies in another folder.


class Saying(unittest.TestCase):
    def test_a_ratio_is_the_median_of_the_rounds_ratios(self):
        ours = [cifar10.Turn(speed, 2.0, 2**20) for speed in (100, 90, 10)]
        pythons = [cifar10.Turn(speed, 4.0, 2**21) for speed in (1, 30, 5)]
        turns = {way: ours for way in cifar10.WAYS} | {"python": pythons}
        first, _, last = cifar10.lines(4, turns)
        self.assertIn("4 ranks  ours", first)
        self.assertIn("speed 3.00 x (2.00 to 100.00)  processors 0.50 x (0.50 to 0.50)  memory 0.50 x", first)
        self.assertNotIn(" x ", last)


class Running(unittest.TestCase):
    def turn_of(self, script):
        """The result of a turn whose program does this."""
        with unittest.mock.patch.object(cifar10, "command_of", lambda *_: []), tempfile.TemporaryDirectory() as build:
            launcher = pathlib.Path(build, "cli", "lockstep")
            launcher.parent.mkdir()
            launcher.write_text(f"#!/bin/sh\n{script}\n")
            launcher.chmod(0o755)
            return cifar10.run("ours", 2, pathlib.Path(build), "data", 2)

    def test_the_speed_is_that_of_the_last_epoch(self):
        turn = self.turn_of("echo 'epoch 1: 5 images/s'; echo 'epoch 2: 70 images/s'")
        self.assertEqual(turn.speed, 70)
        self.assertGreater(turn.peak_bytes, 2**16)

    def test_a_program_that_fails_or_says_too_little_is_an_error_with_what_it_said(self):
        for script in ("echo 'epoch 1: 5 images/s'", "echo '1 images/s 1 images/s'; exit 3"):
            with self.assertRaisesRegex(RuntimeError, "images/s"):
                self.turn_of(script)


class Refusing(unittest.TestCase):
    def start(self, *arguments):
        command = [sys.executable, "-B", os.path.join(BENCH, "cifar10.py"), *arguments]
        return subprocess.run(command, text=True, capture_output=True, timeout=60, check=False)

    def test_no_rounds_and_no_ranks_are_refused(self):
        for flag in ("--rounds", "--ranks", "--epochs"):
            self.assertEqual(self.start(flag, "0").returncode, 2)

    def test_what_is_missing_is_named_with_what_makes_it(self):
        done = self.start("--build", "/nothing")
        if cifar10.PEER.joinpath(".complete").exists():
            self.assertEqual(done.returncode, 2)
            self.assertIn("/nothing/cli/lockstep: run ninja -C /nothing lockstep examples", done.stderr)
        else:
            self.assertEqual(done.returncode, 77)
            self.assertIn("./lockstep setup --peer", done.stdout)


if __name__ == "__main__":
    unittest.main()
