"""A campaign spread over several machines: `run --shard`, and `report`, which puts it together again."""

import copy
import json
import os
import re
import subprocess
import unittest
import xml.etree.ElementTree

from program_case import HERE, PATIENCE_S, PROGRAM, ProgramCase

SLURM = {"SLURM_ARRAY_TASK_ID": "6", "SLURM_ARRAY_TASK_MIN": "5", "SLURM_ARRAY_TASK_MAX": "7",
         "SLURM_ARRAY_TASK_COUNT": "3"}


def without_places_and_times(run):
    run = copy.deepcopy(run)
    for result in run["results"]:
        del result["seconds"]
        for place in ("case_file", "logs", "tail_file", "stack_file"):
            for told in [result, *result.get("others", [])]:
                told.get("failure", {}).pop(place, None)
        for told in [result, *result.get("others", [])]:
            told.get("failure", {}).get("shrunk", {}).pop("seconds", None)
    return {name: run[name] for name in ("results", "not_finished", "jobs", "canary", "seed", "interrupted")}


class ShardsCase(ProgramCase):
    def read(self, name):
        with open(os.path.join(self.folder, name), encoding="utf-8") as file:
            return json.load(file)

    def run_shards(self, of, *arguments, leave_out=(), **environment):
        """The exit statuses of all shards, each of which leaves N.json and a folder outN."""
        return [self.run_program("run", *arguments, "--shard", "%d/%d" % (number, of), "--json", "%d.json" % number,
                                 "--out", "out%d" % number, **environment)[0]
                for number in range(1, of + 1) if number not in leave_out]

    def files(self, of):
        return ["%d.json" % number for number in range(1, of + 1)]


class Merging(ShardsCase):
    def assert_same_as_unsharded(self, counts, *arguments):
        with open(self.file, "w", encoding="ascii"):
            pass  # toys.change_mind has changed its mind.
        status, out, _ = self.run_program("run", *arguments, "--json", "whole.json", "--out", "whole")
        lines = [line for line in out.splitlines() if line.startswith(("✗", "  PASS", "  FAIL", "  sum", "  case"))]
        for of in counts:
            self.run_shards(of, *arguments)
            merged = self.run_program("report", *self.files(of), "--json", "merged.json")
            self.assertEqual(merged[0], status, merged)
            self.assertEqual(without_places_and_times(self.read("merged.json")),
                             without_places_and_times(self.read("whole.json")))
            told = [line for line in merged[1].splitlines()
                    if line.startswith(("✗", "  PASS", "  FAIL", "  sum", "  case"))]
            self.assertEqual([line.split()[2:] for line in told], [line.split()[2:] for line in lines])

    def test_what_holds(self):
        self.assert_same_as_unsharded((1, 2, 3, 7), "toys.hold", "--seed", "7")

    def test_a_failure_stops_where_it_stops_an_unsharded_run(self):
        self.assert_same_as_unsharded((1, 2, 3, 7), "toys.multiply", "toys.bare", "--seed", "7")

    def test_shards_that_keep_going_count_the_signatures_of_an_unsharded_run(self):
        self.assert_same_as_unsharded((2, 3), "toys.fail_in_ways", "--seed", "7", "--keep-going")
        self.assertGreaterEqual(len(self.read("merged.json")["results"][0]["signatures"]), 2)

    def test_every_way_to_end_but_a_hang(self):
        names = ["toys." + name for name in ("hold", "bare", "multiply", "crash", "exit", "throw", "check_throws",
                                             "record_nothing", "refuse", "change_mind")]
        self.assert_same_as_unsharded((2,), *names, "--seed", "9", "--cases", "2", "--tier", "cold")

    def test_fields_that_only_some_scenarios_have(self):
        self.assert_same_as_unsharded((2,), "toys.hold", "toys.bare", "--set", "factor=2", "--seed", "7")

    def test_several_settings(self):
        self.assert_same_as_unsharded((3,), "toys.hold", "--subject", "toy,other", "--tier", "cold,warm", "--seed", "7")

    def test_every_report_is_written(self):
        self.run_shards(2, "toys.multiply", "--seed", "7")
        self.run_program("report", *self.files(2), "--junit", "junit.xml", "--summary", "summary.md")
        root = xml.etree.ElementTree.parse(os.path.join(self.folder, "junit.xml")).getroot()
        self.assertEqual(root.get("failures"), "1")
        with open(os.path.join(self.folder, "summary.md"), encoding="utf-8") as file:
            self.assertTrue(file.read().startswith("## Lockstep: failed\n"))

    def test_a_folder_means_its_latest_run(self):
        self.run_shards(2, "toys.hold", "--seed", "7")
        self.assertEqual(self.run_program("report", "out1", "out2/runs/latest")[0], 0)
        os.unlink(os.path.join(self.folder, "out1/runs/latest"))
        self.assertEqual(self.run_program("report", "out1", "out2")[0], 0)

    def test_tiers_that_ran_by_themselves_are_joined(self):
        for tier in ("cold", "warm"):
            self.run_program("run", "toys.hold", "--seed", "7", "--tier", tier, "--json", tier + ".json")
        status, out, _ = self.run_program("report", "cold.json", "warm.json")
        self.assertEqual(status, 0)
        self.assertIn("2 scenarios, 4 results: 4 passed   20 cases", out)

    def test_a_merged_file_can_be_reported_again(self):
        self.run_shards(2, "toys.multiply", "--seed", "7")
        first = self.run_program("report", *self.files(2), "--json", "merged.json")
        self.assertEqual(self.run_program("report", "merged.json"), first)


class Missing(ShardsCase):
    def test_a_missing_shard_is_named_and_makes_the_whole_inconclusive(self):
        self.run_shards(5, "toys.hold", "--seed", "7", leave_out=(2, 4))
        status, out, _ = self.run_program("report", "1.json", "3.json", "5.json")
        self.assertEqual(status, 3)
        self.assertIn("? shards 2,4 are missing: what would have come to light there is not known\n", out)
        self.assertEqual(self.run_program("report", "1.json", "3.json", "5.json", "--partial")[0], 0)

    def test_a_failure_is_one_whatever_is_missing(self):
        self.run_shards(2, "toys.average", "--seed", "7", leave_out=(2,))
        self.assertEqual(self.run_program("report", "1.json")[0], 1)


class Sharding(ShardsCase):
    def case_events(self, *arguments, **environment):
        self.run_program("run", "toys.hold", "--cases", "20", *arguments, **environment)
        return {event["number"]: event["case"] for event in self.events() if event["event"] == "case"}

    def test_shards_share_the_cases_of_a_seed(self):
        whole = self.case_events("--seed", "7")
        shards = [self.case_events("--seed", "7", "--shard", "%d/3" % number) for number in (1, 2, 3)]
        self.assertEqual(sorted(sum((list(shard) for shard in shards), [])), sorted(whole))
        for number, shard in enumerate(shards, 1):
            self.assertEqual({case % 3 for case in shard}, {number % 3})
            for case in shard:
                self.assertEqual(shard[case], whole[case])

    def test_what_is_archived_shifts_no_number(self):
        whole = self.case_events("--seed", "7")
        self.run_program("run", "toys.multiply", "--seed", "7")
        os.rename(self.path("failures"), self.path("failures of another"))
        os.makedirs(self.path("failures"))
        with open(self.path("failures", "toys.hold-123456.json"), "w", encoding="ascii") as file:
            json.dump({"lockstep_case": 1, "scenario": "toys.hold", "value": {"factor": 77}}, file)
        shard = self.case_events("--seed", "7", "--shard", "2/2")
        self.assertEqual(shard, {number: case for number, case in whole.items() if number % 2 == 0})
        error = self.run_program("run", "toys.hold", "--seed", "7", "--shard", "2/2")[2]
        self.assertIn("toys.hold: a shard leaves out what is archived in .lockstep/failures", error)

    def test_a_story_has_the_numbers_of_the_whole_campaign_and_replays_without_a_shard(self):
        self.run_program("run", "toys.multiply", "--seed", "7", "--shard", "1/2")
        failure = self.latest()["results"][0]["failure"]
        self.assertEqual((failure["number"], failure["of"]), (9, 30))
        status, _, _ = self.run_program("replay", failure["case_file"])
        self.assertEqual((status, self.latest()["results"][0]["failure"]["case"]), (1, failure["case"]))

    def test_a_shard_without_a_case_holds_and_merges(self):
        statuses = self.run_shards(3, "toys.bare", "--seed", "7")
        self.assertEqual(statuses, [0, 0, 0])
        self.assertEqual(self.read("3.json")["results"], [])
        status, out, _ = self.run_program("report", *self.files(3))
        self.assertEqual(status, 0)
        self.assertIn("1 scenario: 1 passed   1 case", out)

    def test_a_shard_that_is_all_skipped_holds_and_the_report_says_skipped(self):
        self.assertEqual(self.run_shards(2, "toys.refuse", "--cases", "2", "--seed", "7"), [0, 0])
        self.assertEqual(self.run_program("report", *self.files(2))[0], 77)

    def test_the_canary_runs_in_every_shard(self):
        self.assertEqual(self.run_shards(7, "--seed", "7", TOYS_CANARY_PASSES="1"), [1] * 7)
        self.assertEqual(self.read("7.json")["canary"], "passed")
        self.assertEqual(self.read("7.json")["results"], [])
        status, out, _ = self.run_program("report", *self.files(7))
        self.assertEqual(status, 1)
        self.assertIn("canary passed", out)


class Launchers(ShardsCase):
    def shard(self, **environment):
        self.run_program("run", "toys.hold", "--seed", "7", "--shard", "auto", **environment)
        return self.latest()["shard"]

    def test_a_task_of_a_slurm_array(self):
        self.assertEqual(self.shard(**SLURM), "2/3")
        self.assertEqual(self.shard(**{**SLURM, "SLURM_ARRAY_TASK_ID": "5"}), "1/3")

    def test_a_job_of_gitlab_and_circle(self):
        self.assertEqual(self.shard(CI_NODE_INDEX="4", CI_NODE_TOTAL="4"), "4/4")
        self.assertEqual(self.shard(CIRCLE_NODE_INDEX="0", CIRCLE_NODE_TOTAL="4"), "1/4")

    def test_a_run_without_the_flag_is_no_shard(self):
        self.run_program("run", "toys.hold", "--seed", "7", **SLURM)
        self.assertIsNone(self.latest()["shard"])


class Copied(ShardsCase):
    """The files of docs/scale, with two shards and the toys for a program."""

    def setUp(self):
        super().setUp()
        os.symlink(PROGRAM, os.path.join(self.folder, "lockstep"))

    def text(self, name):
        with open(os.path.join(HERE, "..", "..", "docs", "scale", name), encoding="utf-8") as file:
            return file.read()

    def shell(self, command, **environment):
        environment = {**self.environment, "TOYS_CANARY_PASSES": "1", **environment}
        done = subprocess.run(["bash", "-euc", command], cwd=self.folder, env=environment, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        return done.returncode, done.stdout + done.stderr

    def assert_shards_and_report(self, shards, report):
        for command, environment in shards:
            status, out = self.shell(command, **environment)
            self.assertEqual(status, 1, out)
            self.assertIn("canary passed", out)
        status, out = self.shell(report)
        self.assertEqual(status, 1, out)
        self.assertIn("1 scenario, 2 results: 2 passed   9 cases", out)

    def test_slurm(self):
        text = self.text("slurm.sh")
        task = {"SLURM_ARRAY_TASK_MIN": "1", "SLURM_ARRAY_TASK_MAX": "2", "SLURM_ARRAY_TASK_COUNT": "2", "SEED": "7"}
        self.assert_shards_and_report([(text, {**task, "SLURM_ARRAY_TASK_ID": number}) for number in ("1", "2")],
                                      re.search(r"--wrap '(.*)'", text).group(1))
        del task["SEED"]
        self.assertIn("SEED: says which cases all tasks draw", self.shell(text, **task)[1])

    def test_gitlab(self):
        run, report = re.findall(r"(?m)^    - (\./lockstep .*)$", self.text("gitlab.yml"))
        node = {"CI_PIPELINE_ID": "7", "CI_NODE_TOTAL": "2"}
        self.assert_shards_and_report([(run, {**node, "CI_NODE_INDEX": number}) for number in ("1", "2")], report)

    def test_github(self):
        text = re.sub(r"run: >\n\s+(.*)\n\s+(.*)", r"run: \1 \2", self.text("github.yml"))
        run, report = re.findall(r"run: (\./lockstep .*)$", text, re.MULTILINE)
        run = run.replace("${{ github.run_id }}", "7").replace("${{ strategy.job-total }}", "2")
        self.assert_shards_and_report([(run.replace("${{ matrix.shard }}", number), {}) for number in ("1", "2")],
                                      report)


class TellingOfShards(ShardsCase):
    def test_a_shard(self):
        self.assert_golden("run_shard", self.transcript("run", "toys.hold", "toys.bare", "toys.multiply", "--seed", "7",
                                                  "--shard", "2/3"))

    def test_a_shard_that_has_nothing_to_run(self):
        self.assert_golden("run_shard_empty", self.transcript("run", "toys.bare", "--seed", "7", "--shard", "2/2"))

    def test_a_report(self):
        self.run_shards(3, "toys.hold", "toys.bare", "toys.multiply", "--seed", "7")
        self.assert_golden("report", self.transcript("report", *self.files(3)) + self.transcript("report", "-q", "2.json") +
                           self.transcript("report", "2.json", "1.json", "--partial"))

    def test_one_sentence_for_each_mistake(self):
        self.run_shards(2, "toys.hold", "--seed", "7")
        for name, arguments in (("seed", ["--seed", "8"]), ("cases", ["--seed", "7", "--cases", "3"]),
                                ("set", ["--seed", "7", "--set", "factor=2"]), ("more", ["toys.bare", "--seed", "7"])):
            self.run_program("run", "toys.hold", *arguments, "--shard", "2/2", "--json", name)
        self.run_program("run", "toys.hold", "--seed", "7", "--shard", "2/3", "--json", "three")
        self.run_program("run", "toys.hold", "--seed", "7", "--json", "whole")
        with open(os.path.join(self.folder, "1.json"), encoding="utf-8") as file:
            text = file.read()
        for name, changed in (("cut", text[:text.index('"seed"') + 12]),
                              ("interrupted", text.replace('"interrupted": false', '"interrupted": "no"')),
                              ("newer", text.replace('"lockstep_run": 1', '"lockstep_run": 2')), ("other", "{}")):
            with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
                file.write(changed)
        auto = ["run", "toys.hold", "--seed", "7", "--shard", "auto"]
        slurm = {name: value for name, value in SLURM.items() if name != "SLURM_ARRAY_TASK_COUNT"}
        self.assert_golden("refusals_of_shards", "".join(
            [self.transcript("run", "toys.hold", *arguments) for arguments in (
                ["--shard", "1/2"], ["--shard", "3/2", "--seed", "7"], ["--shard", "0/2", "--seed", "7"],
                ["--shard", "1/10001", "--seed", "7"], ["--shard", "2", "--seed", "7"])] +
            [self.transcript(*auto, **environment) for environment in (
                {}, slurm, {"SLURM_ARRAY_TASK_MIN": "1"}, {**SLURM, "SLURM_ARRAY_TASK_ID": "8"},
                {**SLURM, "SLURM_ARRAY_TASK_MAX": "9"}, {"CI_NODE_TOTAL": "1"},
                {"CIRCLE_NODE_INDEX": "4", "CIRCLE_NODE_TOTAL": "4"}, {"CIRCLE_NODE_INDEX": "x"})] +
            [self.transcript("report", *arguments) for arguments in (
                [], ["nowhere.json"], ["."], ["cut"], ["interrupted"], ["newer"], ["other"], ["1.json", "1.json"],
                ["1.json", "seed"], ["1.json", "cases"], ["1.json", "set"], ["1.json", "more"], ["1.json", "three"],
                ["1.json", "whole"], ["whole", "whole"], ["1.json", "--junit", "no/such/x"])]))


if __name__ == "__main__":
    unittest.main()
