"""Checks what a run leaves of its failures, and what replays them: replay, the next run, --keep-going."""

import json
import os
import re
import subprocess
import time
import unittest

from program_case import PATIENCE_S, PROGRAM, ProgramCase


class Replaying(ProgramCase):
    def test_a_failure_is_found_again(self):
        self.assertEqual(self.run_program("run", "toys.multiply", "--seed", "7")[0], 1)
        first = self.latest()["results"][0]
        status, out, _ = self.run_program("replay", first["failure"]["case_file"])
        again = self.latest()["results"][0]
        self.assertEqual(status, 1)
        self.assertEqual(again["signature"], first["signature"])
        self.assertEqual(again["failure"]["case"], first["failure"]["case"])
        self.assertIn("replay " + first["failure"]["case_file"], out)

    def test_a_replay_line_is_for_a_shell_wherever_things_lie(self):
        for name in ("a b", "it's", "$HOME `id` \\ *", "a\nb\t\x7f", "-x ä"):
            place = os.path.join(self.folder, name)
            os.mkdir(place)
            program = os.path.join(place, "lock'step")
            os.symlink(PROGRAM, program)
            run = subprocess.run([program, "run", "toys.multiply", "--seed", "7", "--out", place + "/out"],
                                 cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL, capture_output=True,
                                 text=True, timeout=PATIENCE_S, check=False)
            self.assertEqual(run.returncode, 1, run)
            command = re.search(r"(?m)^  replay   (.*)$", run.stdout).group(1)
            self.assertTrue(command.isprintable(), command)
            again = subprocess.run(["bash", "-c", command], cwd=self.folder, env=self.environment,
                                   stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE_S,
                                   check=False)
            self.assertEqual(again.returncode, 1, (command, again.stderr))
            self.assertIn("  replay   " + command + "\n", again.stdout)

    def test_an_archived_failure_is_the_next_runs_first_case(self):
        self.run_program("run", "toys.multiply", "--seed", "7")
        archived = self.latest()["results"][0]["failure"]["case"]
        self.run_program("run", "toys.multiply", "--seed", "8")
        again = self.latest()["results"][0]["failure"]
        self.assertEqual((again["case"], again["number"]), (archived, 1))

    def test_the_story_of_an_archived_failure_says_that_it_is_one(self):
        said = "archived it failed in an earlier run, so it runs first"
        self.assertNotIn(said, self.run_program("run", "toys.multiply", "--seed", "7")[1])
        self.assertIn(said, self.run_program("run", "toys.multiply", "--seed", "8")[1])
        self.assertTrue(self.latest()["results"][0]["failure"]["archived"])

    def test_an_archived_failure_that_fits_no_more_is_refused_by_its_file(self):
        os.makedirs(self.path("failures"))
        file = self.path("failures", "toys.hold-123456.json")
        with open(file, "w", encoding="ascii") as case:
            case.write('{"lockstep_case": 1, "scenario": "toys.hold", "value": {"factr": 2}}')
        status, _, error = self.run_program("run", "toys.hold")
        self.assertEqual(status, 2)
        self.assertIn("toys.hold-123456.json: case: unknown field 'factr'", error)
        self.assertIn("rename the field, or delete the file", error)

    def test_a_hang_ends_at_the_deadline_given(self):
        self.run_program("run", "toys.hang", "--timeout", "0.5")
        case_file = self.latest()["results"][0]["failure"]["case_file"]
        began = time.monotonic()
        self.assertEqual(self.run_program("replay", case_file, "--timeout", "0.5")[0], 1)
        self.assertLess(time.monotonic() - began, PATIENCE_S / 2)

    def test_logs_hold_what_each_rank_wrote(self):
        self.run_program("run", "toys.multiply", "--seed", "7")
        failure = self.latest()["results"][0]["failure"]
        for rank in range(failure["case"]["world"]["size"]):
            with open(os.path.join(self.folder, failure["logs"], "rank%d.err" % rank),
                      encoding="utf-8") as log:
                self.assertIn("rank %d multiplies" % rank, log.read())

    def test_tee_prints_what_each_rank_wrote_whatever_the_verdict(self):
        self.run_program("run", "toys.multiply", "--seed", "7")
        file = self.latest()["results"][0]["failure"]["case_file"]
        with open(os.path.join(self.folder, file), encoding="utf-8") as text:
            case = json.load(text)
        case["value"]["factor"] = 3  # Which holds.
        with open(self.path("holds.json"), "w", encoding="utf-8") as text:
            json.dump(case, text)
        for status, run, factor in (1, file, r"\d+"), (0, self.path("holds.json"), "3"):
            said = self.run_program("replay", run, "--tee")
            self.assertEqual(said[0], status)
            for rank in range(2):
                self.assertRegex(said[1], rf"(?m)^\[{rank}\] rank {rank} multiplies by {factor}$")
            self.assertNotIn("] rank", self.run_program("replay", run)[1])


class KeepingGoing(ProgramCase):
    def test_every_case_is_judged_and_each_signature_is_reported_once(self):
        status, out, _ = self.run_program("run", "toys.fail_in_ways", "--seed", "7", "--keep-going")
        self.assertEqual(status, 1)
        result = self.latest()["results"][0]
        verdicts = [event for event in self.events() if event["event"] == "verdict" and event["run"] == 1]
        self.assertEqual(sorted(event["number"] for event in verdicts), list(range(1, 21)))
        counts = {}
        for event in verdicts:
            if event["verdict"] != "pass":
                counts[event["signature"]] = counts.get(event["signature"], 0) + 1
        self.assertGreaterEqual(len(counts), 3)
        # A case whose smallest one explains more counts under that one's signature.
        told = result["signatures"]
        self.assertGreaterEqual(len(told), 2)
        self.assertEqual((set(told) - set(counts), sum(told.values())), (set(), sum(counts.values())))
        self.assertTrue(all(told[signature] >= counts[signature] for signature in told))
        self.assertEqual(out.count("\u2717"), len(told))
        for failure in [result["failure"]] + [other["failure"] for other in result["others"]]:
            self.assertIn("replay " + failure["case_file"], out)
            self.assertEqual(self.run_program("replay", failure["case_file"])[0], 1)

    def test_without_the_flag_a_scenario_stops_at_its_first_failing_case(self):
        self.run_program("run", "toys.fail_in_ways", "--seed", "7")
        result = self.latest()["results"][0]
        self.assertEqual(result["judged"], result["failure"]["number"])
        self.assertNotIn("signatures", result)
        self.assertNotIn("others", result)


if __name__ == "__main__":
    unittest.main()
