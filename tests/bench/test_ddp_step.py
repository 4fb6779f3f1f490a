"""How bench/ddp_step.py says what it measured, and what it says where it cannot."""

import os
import subprocess
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BENCH = os.path.join(ROOT, "bench")
sys.path.insert(0, BENCH)

import ddp_step  # It lies in another folder.


def start(*arguments):
    command = [sys.executable, "-B", os.path.join(BENCH, "ddp_step.py"), *arguments]
    return subprocess.run(command, text=True, capture_output=True, timeout=60, check=False)


class Refusals(unittest.TestCase):
    def test_without_the_program_it_says_what_builds_it(self):
        result = start("--build", "nothing")
        self.assertEqual(result.returncode, 2)
        self.assertIn("nothing/bench/bench_ddp_step: run ./lockstep build", result.stderr)

    def test_no_rounds_and_unknown_models_are_refused(self):
        self.assertEqual(start("--rounds", "0").returncode, 2)
        result = start("--models", "8k,9k")
        self.assertEqual(result.returncode, 2)
        self.assertIn("no model is called 9k: 8k, 6m, 25m, small", result.stderr)


    def test_gloos_stall_cannot_be_cured_where_there_is_no_gloo(self):
        result = start("--device", "cuda", "--cured")
        self.assertEqual(result.returncode, 2)
        self.assertIn("--cured is about Gloo, and --device cuda is about NCCL", result.stderr)
        self.assertEqual(start("--device", "tpu").returncode, 2)


class Asked:
    """A world whose step takes what each way is said to take."""

    def __init__(self, seconds, turns):
        self.seconds, self.turns = seconds, turns

    def run(self, way, _model, _steps):
        self.turns.append(way)
        return {"wall": self.seconds[way], "processor": self.seconds[way] / 2}


class Measuring(unittest.TestCase):
    def test_overhead_is_over_the_same_round_and_language_and_every_other_round_is_backwards(self):
        turns = []
        seconds = {"cpp": {"none": 1.0, "c10d": 1.5}, "python": {"none": 4.0, "python": 8.0}}
        worlds = {(side, way): Asked(seconds[side], turns) for side in seconds for way in seconds[side]}
        ways = {"cpp": ["none", "c10d"], "python": ["none", "python"]}
        added, bare = ddp_step.overheads(worlds, ways, ddp_step.MODELS[0], 2, 1)
        self.assertEqual(turns, ["none", "c10d", "none", "python", "python", "none", "c10d", "none"])
        self.assertEqual(added["wall", "c10d"], [0.5, 0.5])
        self.assertEqual(added["processor", "python"], [2.0, 2.0])
        self.assertEqual(bare["wall", "python"], [4.0, 4.0])

    def test_a_ratio_is_the_median_of_the_rounds_ratios_and_no_ratio_to_noise(self):
        self.assertEqual(ddp_step.ratio([1.0, 1.0, 9.0], [2.0, 1.0, 3.0]), (1.0, 0.5, 3.0))
        self.assertEqual(ddp_step.ratio([1.0], [-0.1])[0], float("inf"))


class Sending:
    """A world that sends so many bytes in a step, and some more before."""

    def __init__(self, bytes_of_a_step):
        self.bytes_of_a_step = bytes_of_a_step

    def run(self, _way, _model, steps):
        return {"bytes": 5000 + self.bytes_of_a_step * steps}


class Saying(unittest.TestCase):
    def test_what_hooks_send_is_what_more_steps_add_beside_that_without_one(self):
        sent = {"none": 0, "lockstep": 4_000_000, "hook:fp16_compress": 2_000_000}
        worlds = {("cpp", way): Sending(each) for way, each in sent.items()}
        self.assertEqual(ddp_step.text_of_bytes(worlds, list(sent), ddp_step.MODELS[0], 10),
                         "  sent by a rank in a step: lockstep 4.000 MB (1.00 x), fp16_compress hook 2.000 MB (0.50 x)")

    def test_each_of_ours_stands_beside_its_rivals(self):
        added = {("wall", "lockstep"): [0.001], ("wall", "c10d"): [0.002], ("wall", "c10d_view"): [0.004]}
        lines = list(ddp_step.lines_of_times(ddp_step.MODELS[0], added, {("wall", "cpp"): [0.01]}))
        self.assertIn("  time of a step, without DDP C++ 10.000 ms; with it, more:", lines)
        self.assertIn("    lockstep                   1.000 ms   0.50 x c10d (0.50 to 0.50)", lines)
        self.assertIn("    c10d::Reducer, views       4.000 ms", lines)


if __name__ == "__main__":
    unittest.main()
