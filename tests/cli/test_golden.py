"""Checks what the program prints, word for word, and its exit status: golden/*.txt are the specification."""

import json
import os
import re
import unittest

from program_case import ProgramCase

BESIDE_STORIES = re.compile(r"\$|lockstep |  [A-Z]+ |\d+ scenarios|run: |exit ")


class Passing(ProgramCase):
    def test_a_run_that_holds(self):
        self.assert_golden("run_holds", self.transcript("run", "toys.hold", "--seed", "7"))

    def test_quiet_leaves_the_summary(self):
        self.assert_golden("run_quiet", self.transcript("run", "toys.hold", "--seed", "7", "-q"))

    def test_verbose_shows_each_case(self):
        text = self.transcript("run", "toys.hold_too", "--seed", "7", "-v", "-j", "1")
        self.assert_golden("run_verbose", text)

    def test_more_verbose_shows_each_row(self):
        text = self.transcript("run", "toys.hold_too", "--seed", "7", "--cases", "1", "-vv", "-j", "1")
        self.assert_golden("run_more_verbose", text)

    def test_several_subjects_are_distinguished(self):
        text = self.transcript("run", "toys.hold_too", "--seed", "7", "--subject", "toy,other")
        self.assert_golden("run_subjects", text)


class Failing(ProgramCase):
    def test_a_wrong_number(self):
        self.assert_golden("run_fails", self.transcript("run", "toys.multiply", "--seed", "7"))

    def test_a_row_of_several_is_wrong(self):
        self.assert_golden("run_story", self.transcript("run", "toys.average", "--seed", "7"))

    def test_a_row_of_several_is_wrong_in_colour(self):
        text = self.transcript("run", "toys.average", "--seed", "7", "--color", "always", NO_COLOR="1")
        self.assert_golden("run_story_colour", text)

    def test_a_step_on_github(self):
        text = self.transcript("run", "toys.average", "toys.refuse", "toys.check_throws", "--seed", "7",
                         GITHUB_ACTIONS="true")
        self.assert_golden("run_github", text)

    def test_each_signature_once_where_the_run_keeps_going(self):
        text = self.transcript("run", "toys.fail_in_ways", "toys.hold_too", "--seed", "7", "--keep-going")
        self.assert_golden("run_keeps_going", text)

    def test_a_crash_in_each_phase(self):
        self.assert_golden("run_crashes", self.transcript("run", "toys.crash", "--seed", "7"))

    def test_a_rank_that_leaves_or_throws(self):
        text = self.transcript("run", "toys.exit", "toys.throw", "--seed", "7")
        self.assert_golden("run_exits_and_throws", text)

    def test_a_hang(self):
        self.assert_golden("run_hangs", self.transcript("run", "toys.hang", "--seed", "7", "--timeout", "1", "--no-shrink"))

    def test_no_observation(self):
        text = self.transcript("run", "toys.record_nothing", "--seed", "7")
        self.assert_golden("run_records_nothing", text)

    def test_a_verdict_that_changes(self):
        self.assert_golden("run_flaky", self.transcript("run", "toys.change_mind", "--seed", "7"))

    def test_a_canary_that_passes(self):
        text = self.transcript("run", "--seed", "7", TOYS_CANARY_PASSES="1")
        self.assert_golden("run_canary_passes", text)


class Neither(ProgramCase):
    def test_a_check_that_throws(self):
        self.assert_golden("run_inconclusive", self.transcript("run", "toys.check_throws", "--seed", "7"))

    def test_all_refused(self):
        self.assert_golden("run_refused", self.transcript("run", "toys.refuse", "--seed", "7"))


class Everything(ProgramCase):
    def test_a_full_run_has_a_canary(self):
        with open(self.file, "w", encoding="ascii"):
            pass
        text = self.transcript("run", "--seed", "7", "--timeout", "2", "--no-shrink")
        self.assertEqual(len(re.findall("(?m)^[✗?] ", text)), 12, "each that fails has its story, as in the golden texts above")
        self.assert_golden("run_everything", "".join(line for line in text.splitlines(True) if BESIDE_STORIES.match(line)))

    def test_the_first_failure_stops_all(self):
        text = self.transcript("run", "--seed", "7", "-x", "-j", "2", "--not-tag", "one")
        self.assert_golden("run_stops", text)


class Telling(ProgramCase):
    def test_help(self):
        text = "".join(self.transcript(*arguments) for arguments in (
            ["--help"], ["--version"], ["run", "--help"], ["replay", "--help"], ["report", "--help"],
            ["shard", "--help"]))
        self.assert_golden("help", text)
        self.assertEqual(self.run_program(), (2, "", self.run_program("--help")[1]), "without a command it is the usage")

    def test_list(self):
        self.assert_golden("list", self.transcript("list") + self.transcript("list", "*hold*", "--tag", "many"))

    def test_list_as_json(self):
        path = os.path.join(self.folder, "list.json")
        self.transcript("list", "*hold*", "--json", path)
        with open(path, encoding="utf-8") as file:
            listed = json.load(file)
        self.assertEqual(listed["version"], 1)
        names = re.findall(r"(?m)^(\w+\.\w+)$", self.transcript("list", "*hold*"))
        self.assertEqual([each["name"] for each in listed["scenarios"]], names)
        self.assertEqual(set(listed["scenarios"][0]), {"name", "claim", "tags", "exhaustive_cases", "drawn_cases"})
        os.remove(path)
        self.transcript("list", "no_such", "--json", path)
        self.assertFalse(os.path.exists(path), "nothing was selected, and a file was left")

    def test_explain(self):
        self.assert_golden("explain", self.transcript("explain", "toys.mul"))

    def test_shard(self):
        text = "".join(self.transcript("shard", "--length", "10", "--world", *arguments) for arguments in (
            ["2"], ["3", "--drop-last"], ["3", "--no-shuffle"], ["2", "--seed", "1", "--epoch", "2"], ["3", "--no-pad"]))
        self.assert_golden("shard", text)

    def test_replay_shows_every_row(self):
        with open(self.folder + "/case.json", "w", encoding="ascii") as file:
            file.write('{"lockstep_case": 1, "scenario": "toys.multiply", '
                       '"value": {"world": {"size": 3}, "factor": 40}}')
        self.assert_golden("replay",
                           self.transcript("replay", "case.json", "-v") + self.transcript("replay", "case.json"))


class Refusing(ProgramCase):
    def test_one_sentence_for_each_mistake(self):
        with open(self.folder + "/other.json", "w", encoding="ascii") as file:
            file.write('{"some": "other file"}')
        with open(self.folder + "/newer.json", "w", encoding="ascii") as file:
            file.write('{"lockstep_case": 99}')
        with open(self.folder + "/unknown.json", "w", encoding="ascii") as file:
            file.write('{"lockstep_case": 1, "scenario": "toys.holt", "value": {}}')
        with open(self.folder + "/field.json", "w", encoding="ascii") as file:
            file.write('{"lockstep_case": 1, "scenario": "toys.hold", "value": {"factr": 2}}')
        with open(self.folder + "/list.json", "w", encoding="ascii") as file:
            file.write("[1, 2")
        self.assert_golden("refusals", "".join(self.transcript(*arguments) for arguments in (
            ["rnu"], ["run", "--wrold", "2"], ["run", "--seed"], ["run", "--seed", "x"],
            ["run", "--cases", "3", "--cases", "4"], ["run", "-q", "-v"], ["run", "-x", "--keep-going"],
            ["run", "toys.hodl"], ["run", "nothing.like.it"], ["run", "--tag", "mnay"],
            ["run", "--tag", "many", "--not-tag", "many"], ["run", "--tag", "many and"],
            ["run", "--exclude", "toys.hodl"], ["run", "--failed"], ["run", "--failed", "--cases", "2"],
            ["run", "--for", "soon"], ["run", "--for", "0m"], ["run", "--for", "1m", "--shard", "1/2", "--seed", "1"],
            ["run", "--until-fail", "--keep-going"], ["run", "-x", "--max-fail", "2"], ["run", "--repeat", "0"],
            ["run", "--slowest", "11"],
            ["run", "--world", "0"], ["run", "--world", "2,x"], ["run", "--world", "2000"],
            ["run", "--timeout", "0"], ["run", "--timeout", "-5"], ["run", "--timeout", "soon"],
            ["run", "--cases", "0"], ["run", "-j", "0"],
            ["run", "--tier", "smi"], ["run", "--backend", "mpi"], ["run", "--subject", "toi"],
            ["run", "--color", "pink"],
            ["run", "toys.hold", "--set", "factr=2"], ["run", "toys.hold", "--set", "factor=101"],
            ["run", "toys.hold", "--set", "factor"],
            ["run", "toys.hold", "--out", "/dev/null"], ["run", "toys.hold", "--junit", "no/such/x"],
            ["replay"], ["replay", "nowhere.json"], ["replay", "other.json"],
            ["replay", "newer.json"], ["replay", "unknown.json"], ["replay", "field.json"],
            ["replay", "list.json"], ["explain", "toys.h"], ["explain", "toys.hodl"],
            ["shard", "--length", "4", "--world", "0"], ["shard", "--world", "2"])))


if __name__ == "__main__":
    unittest.main()
