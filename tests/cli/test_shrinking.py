"""The smallest failing case: on real worlds, in the archive, interrupted, and not wanted."""

import json
import os
import signal
import unittest

from program_case import ProgramCase


def fields(case, defaults={"schedule": None, "timing": None, "reduction": None}):
    """A case without what concerns only the schedule."""
    world = {name: value for name, value in case["world"].items() if name not in defaults}
    return {**case, "world": world}


class Worlds(ProgramCase):
    """Bugs that need several fields of a case, in simulated and in forked worlds; LOCKSTEP_SHRINK_SEEDS=10 looks for
    them from that many seeds."""

    SMALL = {"world": {"injections": [], "size": 1}, "steps": 1, "crates": [], "loads": [], "rope": 0,
             "stacked": False, "mark": "none", "seed": 0}
    LARGE = {"world": {"size": 7, "schedule": {"policy": "uniform", "seed": 99}, "reduction": "ring"}, "steps": 30,
             "crates": [{"width": 5 + i % 4, "label": i % 3} for i in range(12)],
             "loads": [5, 3, 8, 1, 2, 9, 4], "rope": 37, "stacked": True, "mark": "paint", "seed": 77}
    SMALLEST = {
        "crates.lose_a_load": {"world": {"injections": [], "size": 3}, "loads": [1, 0, 0],
                               "crates": [{"width": 1, "label": 1}, {"width": 1, "label": 1}]},
        "crates.stay_away": {"world": {"injections": [], "size": 2}, "steps": 4, "rope": 7, "stacked": True},
        "crates.break": {"crates": [{"width": 1, "label": 0}, {"width": 5, "label": 0}], "mark": "paint"},
    }
    RESULTS = {"crates.lose_a_load": "fail", "crates.stay_away": "hang", "crates.break": "crash"}

    def assert_smallest(self, result):
        name = result["scenario"]
        self.assertEqual(result["result"], self.RESULTS[name])
        self.assertEqual(fields(result["failure"]["case"]), {**self.SMALL, **self.SMALLEST[name]}, result)
        self.assertEqual(result["failure"]["shrunk"]["end"], "smallest")
        self.assertEqual(result["failure"]["shrunk"]["tier"], "sim")
        print("%-20s case %3d, %2d steps, %3d runs, %.1f s" % (
            name, result["failure"]["number"], result["failure"]["shrunk"]["steps"], result["failure"]["shrunk"]["runs"],
            result["failure"]["shrunk"]["seconds"]))

    def test_they_are_found_and_shrunk_from_any_seed(self):
        for seed in map(str, range(1, 1 + int(os.environ.get("LOCKSTEP_SHRINK_SEEDS", "1")))):
            status, out, err = self.finish(self.start_as_given(
                "run", "--seed", seed, "--tier", "sim", "--shrink-time", "100", "--out", seed, TOYS_CRATES="1"))
            self.assertEqual(status, 1, out + err)
            with open(os.path.join(self.folder, seed, "runs", "latest", "run.json"), encoding="utf-8") as file:
                results = json.load(file)["results"]
            self.assertEqual(len(results), 3)
            for result in results:
                self.assertLessEqual(result["failure"]["number"], 2000)
                self.assert_smallest(result)

    def test_they_are_shrunk_from_a_large_case_written_by_hand(self):
        for name in self.SMALLEST:
            with open(os.path.join(self.folder, "large.json"), "w", encoding="ascii") as file:
                json.dump({"lockstep_case": 1, "scenario": name, "value": self.LARGE}, file)
            status, out, err = self.run_program("replay", "large.json", "--tier", "cold", "--timeout", "5",
                                                "--shrink-time", "100", TOYS_CRATES="1")
            self.assertEqual(status, 1, out + err)
            self.assert_smallest(self.latest()["results"][0])
            again = self.latest()["results"][0]["failure"]["case_file"]
            status, out, err = self.run_program("replay", again, "--tier", "cold", "--timeout", "5", TOYS_CRATES="1")
            self.assertEqual(status, 1, out + err)
            self.assertEqual(self.latest()["results"][0]["result"], self.RESULTS[name])


class Shrinking(ProgramCase):
    def test_the_file_holds_the_smallest_case_and_the_drawn_one(self):
        self.run_program("run", "toys.multiply", "--seed", "7")
        failure = self.latest()["results"][0]["failure"]
        with open(os.path.join(self.folder, failure["case_file"]), encoding="utf-8") as file:
            saved = json.load(file)
        self.assertEqual((failure["case"]["factor"], failure["case"]["world"]["size"]), (40, 2))
        self.assertEqual(saved["value"], failure["unlike_default"])
        drawn = next(event for event in self.events()
                     if event["event"] == "case" and event["number"] == failure["number"])
        self.assertEqual(saved["shrunk"]["drawn"], failure["shrunk"]["drawn_unlike_default"])
        self.assertEqual(failure["shrunk"]["drawn"], drawn["case"])
        self.assertTrue(saved["shrunk"]["smallest"])
        self.assertEqual(os.listdir(self.path("failures")), [os.path.basename(failure["case_file"])])

    def test_verdicts_cases_and_exit_codes_are_those_without(self):
        seen = []
        for how in ("--no-shrink", "--shrink-time=20"):
            status = self.run_program("run", "toys.multiply", "toys.crash_in_a_step", "toys.throw", "--seed", "7",
                                      "--out", how, how)[0]
            with open(os.path.join(self.folder, how, "runs", "latest", "run.json"), encoding="utf-8") as file:
                run = json.load(file)
            seen.append((status, run["jobs"], [
                [result[name] for name in ("result", "verdict", "signature", "judged", "labels", "groups")]
                + [result["failure"][name] for name in ("number", "of", "runs")] for result in run["results"]]))
            self.assertEqual(["shrunk" in result["failure"] for result in run["results"]],
                             [how != "--no-shrink"] * 3)
        self.assertEqual(seen[0], seen[1])

    def test_a_run_that_was_interrupted_keeps_the_smallest_so_far_and_the_next_continues(self):
        with open(os.path.join(self.folder, "large.json"), "w", encoding="ascii") as file:
            json.dump({"lockstep_case": 1, "scenario": "crates.lose_a_load", "value": Worlds.LARGE}, file)
        process = self.start("replay", "large.json", "--tier", "cold", "--shrink-time", "100", TOYS_CRATES="1")
        # Its search is in simulated worlds; the file appears when it has been confirmed in forked ones.
        self.wait_until(lambda: sum(event["event"] == "trial" for event in self.events()) > 20, process)
        process.send_signal(signal.SIGINT)
        status, out, _ = self.finish(process)
        if status == 130:
            self.assertIn("interrupted: replay --shrink continues", out)
        failure = self.latest()["results"][0]["failure"]
        status, out, _ = self.run_program("replay", failure["case_file"], "--shrink", "--tier", "sim", TOYS_CRATES="1")
        self.assertEqual(status, 1)
        self.assertEqual(fields(self.latest()["results"][0]["failure"]["case"])["loads"], [1, 0, 0])

    def test_no_time_leaves_a_case_that_a_later_replay_shrinks(self):
        self.run_program("run", "toys.multiply", "--seed", "7", "--no-shrink")
        drawn = self.latest()["results"][0]["failure"]
        self.assertNotIn("shrunk", drawn)
        status, out, _ = self.run_program("replay", drawn["case_file"], "--shrink")
        self.assertEqual(status, 1)
        failure = self.latest()["results"][0]["failure"]
        self.assertEqual((failure["case"]["factor"], failure["shrunk"]["drawn"]), (40, drawn["case"]))
        self.assertIn("replay " + failure["case_file"], out)
        self.assertNotEqual(failure["case_file"], drawn["case_file"])
        self.assertTrue(os.path.exists(os.path.join(self.folder, drawn["case_file"])))

    def test_a_hang_that_must_be_waited_for_is_shrunk_within_its_time(self):
        status, out, err = self.run_program("run", "toys.hang", "--seed", "7", "--timeout", "0.5",
                                            "--shrink-time", "4")
        self.assertEqual(status, 1, out + err)
        result = self.latest()["results"][0]
        self.assertEqual(result["result"], "hang")
        self.assertEqual(result["failure"]["case"]["factor"], 1)

    def test_both_flags_exclude_each_other(self):
        status, _, error = self.run_program("run", "toys.hold", "--no-shrink", "--shrink-time", "3")
        self.assertEqual((status, "exclude each other" in error), (2, True))
        status, _, error = self.run_program("run", "toys.hold", "--shrink-time", "soon")
        self.assertEqual((status, "--shrink-time soon" in error), (2, True))


if __name__ == "__main__":
    unittest.main()
