"""How much of the cases a run takes: which scenarios, archived failures alone, until when, how often."""

import json
import os
import unittest

from program_case import ProgramCase


class Selecting(ProgramCase):
    def test_failed_runs_what_is_archived_and_nothing_else(self):
        self.run_program("run", "toys.hold", "toys.multiply", "--seed", "7")
        archived = self.latest()["results"][-1]["failure"]["case"]
        status, _, _ = self.run_program("run", "--failed", "--seed", "8")
        run = [event for event in self.events() if event["event"] == "case"]
        self.assertEqual(status, 1)
        self.assertEqual({event["scenario"] for event in run}, {"toys.multiply"})
        self.assertTrue(all(event["case"] == archived for event in run))
        self.assertEqual([result["scenario"] for result in self.latest()["results"]], ["toys.multiply"])

    def test_failed_without_an_archived_failure_selects_nothing(self):
        status, _, error = self.run_program("run", "--failed")
        self.assertEqual((status, error), (4, "lockstep: no failure of these scenarios is archived in .lockstep/failures\n"))

    def test_failed_says_which_flag_leaves_out_what_is_archived(self):
        self.run_program("run", "toys.multiply", "--seed", "7")
        status, _, error = self.run_program("run", "--failed", "--world", "5")
        self.assertEqual((status, error), (
            4, "lockstep: 1 failure of these scenarios in .lockstep/failures, and --world leaves out this one\n"))

    def test_a_folder_of_failures_that_cannot_be_listed_is_refused(self):
        os.mkdir(self.path())
        with open(self.path("failures"), "w", encoding="utf-8"):
            pass
        status, _, error = self.run_program("run", "--failed")
        self.assertEqual(status, 2)
        self.assertIn(".lockstep/failures: cannot list the archived failures: Not a directory", error)

    def test_what_is_excluded_does_not_run(self):
        self.run_program("run", "toys.hold", "--exclude", "*_too")
        self.assertEqual([result["scenario"] for result in self.latest()["results"]], ["toys.hold"])


class Planning(ProgramCase):
    def test_a_plan_runs_nothing_and_says_how_many_cases_a_run_runs(self):
        status, out, _ = self.run_program("run", "toys.hold", "--seed", "7", "--dry-run")
        self.assertEqual(status, 0)
        self.assertFalse(os.path.exists(self.path("runs")), "nothing has run")
        self.assertIn("10 cases   the time is not known: no earlier run is kept", out)
        self.run_program("run", "toys.hold", "--seed", "7")
        self.assertEqual(sum(result["judged"] for result in self.latest()["results"]), 10)

    def test_the_time_of_a_plan_is_that_of_earlier_runs(self):
        self.run_program("run", "toys.hold_too", "--seed", "7")
        file = os.path.join(os.path.realpath(self.path("runs", "latest")), "run.json")
        with open(file, encoding="utf-8") as run:
            text = run.read()
        seconds = self.latest()["results"][0]["seconds"]
        with open(file, "w", encoding="utf-8") as run:  # Four cases in eight seconds: two a case.
            run.write(text.replace('"seconds": %s' % seconds, '"seconds": 8.0'))
        out = self.run_program("run", "toys.hold_too", "toys.bare", "--cases", "2", "--dry-run")[1]
        self.assertRegex(out, r"toys.hold_too +toy cold gloo +2 cases +4\.0 s\n")
        self.assertRegex(out, r"toys.bare +toy cold gloo +1 case +2\.0 s\n", "as the others of its tier")


    def test_a_plan_says_what_repetition_and_time_make_of_it(self):
        out = self.run_program("run", "toys.hold", "--seed", "7", "--dry-run", "--repeat", "3")[1]
        self.assertIn("10 cases   each up to 3 times   the time is not known", out)
        out = self.run_program("run", "toys.hold", "--seed", "7", "--dry-run", "--until-fail", "--for", "1m")[1]
        self.assertTrue(out.endswith("more cases are drawn then, until 60.0 s are over or one fails; no case starts "
                                     "after that time\n"), out)


class Budgets(ProgramCase):
    def cases(self, *arguments):
        status, out, _ = self.run_program("run", "toys.hold_too", "--seed", "7", "-j", "1", *arguments)
        return status, out, [event["case"] for event in self.events() if event["event"] == "case"]

    def test_a_run_for_a_time_begins_with_the_cases_of_one_without(self):
        plain = self.cases()[2]
        status, _, longer = self.cases("--for", "4s")
        self.assertEqual((status, longer[:len(plain)]), (0, plain))
        self.assertGreater(len(longer), len(plain))
        self.assertEqual(len(set(map(str, longer))), len(longer), "none comes twice")
        self.assertEqual(self.latest()["jobs"][0]["cases"], self.latest()["results"][0]["judged"])

    def test_what_had_no_time_is_inconclusive_and_named(self):
        status, out, _ = self.run_program("run", "toys.hold", "toys.bare", "--for", "0.001s", "-j", "1")
        self.assertEqual(status, 3)
        self.assertRegex(out, r"no result for \d scenarios?: its time was over before a case of it had run")

    def test_until_fail_ends_with_a_failure(self):
        status, out, _ = self.run_program("run", "toys.multiply", "toys.hold_too", "--set", "world.size=2", "--cases",
                                          "1", "--until-fail", "--seed", "7", "--no-shrink")
        self.assertEqual(status, 1)
        self.assertIn("FAIL", out)
        failed = [result for result in self.latest()["results"] if result["result"] == "fail"]
        self.assertGreaterEqual(failed[0]["failure"]["case"]["factor"], 40)

    def test_each_case_runs_as_often_as_asked_for(self):
        runs = [event["run"] for event in self.events_of("--repeat", "3")]
        self.assertEqual(runs, [1, 2, 3] * 4)

    def events_of(self, *arguments):
        self.cases(*arguments)
        return [event for event in self.events() if event["event"] == "verdict"]

    def test_so_many_failures_stop_a_run(self):
        run = ["run", "toys.average", "toys.exit", "toys.throw", "--no-shrink", "-j", "1", "--max-fail"]
        for most, results in (("1", 1), ("2", 2), ("9", 3)):
            self.assertEqual(self.run_program(*run, most)[0], 1)
            self.assertEqual(len(self.latest()["results"]), results, most)

    def test_a_replay_until_it_fails_ends_with_the_play_that_failed(self):
        file = os.path.join(self.folder, "case.json")
        with open(file, "w", encoding="ascii") as case:
            case.write('{"lockstep_case": 1, "scenario": "toys.hold", "value": {"world": {"size": 2}}}')
        self.assertEqual(self.run_program("replay", file, "--repeat", "3")[0], 0)
        self.assertEqual(len([event for event in self.events() if event["event"] == "verdict"]), 3)
        self.assertEqual(self.run_program("replay", file, "--until-fail", "--for", "0.5s")[0], 0)
        self.assertGreater(len([event for event in self.events() if event["event"] == "verdict"]), 1)

    def test_the_slowest_cases_are_listed_on_request(self):
        out = self.cases("--slowest", "2")[1]
        self.assertRegex(out, r"slowest cases\n( +\d+\.\ds  toys\.hold_too  cold   case \d+\n){2}1 scenario")
        self.assertEqual(len(self.latest()["slowest"]), 4)


class Shares(ProgramCase):
    def run_kinds(self, *arguments):
        return self.run_program("run", *arguments, "--seed", "7", TOYS_KINDS="1")

    def test_a_run_that_misses_a_share_is_red_and_says_which(self):
        status, out, _ = self.run_kinds("kinds.missed")
        self.assertEqual(status, 1)
        self.assertRegex(out, r"FAIL .* kinds\.missed .* 30 cases\n")
        self.assertRegex(out, r"\n  a loud one: \d+ of 30 drawn cases \(\d+ %\), at least 90 % required\n")
        self.assertNotIn("labels:", out)
        result = self.latest()["results"][0]
        self.assertEqual((result["result"], result["findings"][0]["pattern"]), ("fail", "label_missed"))
        self.assertEqual(result["required_shares"], [{"label": "a loud one", "share": 0.9}])
        self.assertEqual(result["labels"]["drawn"], 30)
        self.assertFalse(os.path.exists(self.path("failures")) and os.listdir(self.path("failures")))
        status, again, _ = self.run_program("report", self.path("runs", "latest"), TOYS_KINDS="1")
        self.assertEqual(status, 1)
        self.assertIn("at least 90 % required", again)

    def test_of_another_subject_a_missed_share_is_a_note(self):
        status, out, _ = self.run_kinds("kinds.missed", "--subject", "other", "--stats")
        self.assertEqual(status, 0)
        self.assertNotIn("FAIL", out)
        self.assertRegex(out, r"\nlabels: 0 of 1 required share met; the closest: kinds\.missed, a loud one: ")
        self.assertEqual(self.latest()["results"][0]["result"], "pass")
        self.assertNotIn("labels:", self.run_kinds("kinds.missed", "--subject", "other")[1])

    def test_a_run_that_has_its_shares_says_how_far(self):
        self.assertNotIn("labels:", self.run_kinds("kinds.met")[1])
        status, out, _ = self.run_kinds("kinds.met", "--stats")
        self.assertEqual(status, 0)
        self.assertRegex(out, r"\nlabels: 1 of 1 required share met; the closest: kinds\.met, a loud one: \d+ of 30 ")
        self.assertRegex(out, r"\npairs of options: 4 of 4 covered\n")
        self.assertEqual(self.latest()["jobs"][0]["pairs"], {"covered": 4, "all": 4})

    def test_shares_of_cases_that_were_chosen_are_not_judged(self):
        for arguments in (["--set", "loud=false"], ["--world", "2"], ["--set", "number=5"]):
            status, out, _ = self.run_kinds("kinds.missed", "--stats", *arguments)
            self.assertEqual((status, "labels:" in out), (0, False), arguments)
        self.assertNotIn("required_shares", self.latest()["results"][0])

    def test_few_cases_are_said_to_be_too_few(self):
        status, out, _ = self.run_kinds("kinds.missed", "--cases", "20", "--stats")
        self.assertEqual(status, 0)
        self.assertIn("\nlabels: 1 result drew fewer than 25 cases, too few to judge their shares\n", out)

    def test_shards_judge_shares_together(self):
        for shard in ("1/2", "2/2"):
            self.assertEqual(self.run_kinds("kinds.missed", "--shard", shard, "--out", "s" + shard[0])[0], 0)
        status, out, _ = self.run_program("report", "s1/runs/latest", "s2/runs/latest", TOYS_KINDS="1")
        self.assertEqual(status, 1)
        self.assertIn("of 30 drawn cases", out)

    def test_a_field_that_a_scenario_does_not_use_is_refused(self):
        status, out, _ = self.run_kinds("--set", "colour=green")
        self.assertRegex(out, r"SKIP .* kinds\.plain .* does not use the field 'colour' of --set\n")
        status, _, error = self.run_kinds("kinds.plain", "--set", "colour=green")
        self.assertEqual(status, 2)
        self.assertIn("case.colour: \"green\", but kinds.plain does not use it; leave it out, or at its default, \"red\"", error)
        explained = self.run_program("explain", "kinds.plain", TOYS_KINDS="1")[1]
        self.assertIn("does not use    colour\n", explained)
        self.assertIn("must draw       a loud one, in 20 % of its drawn cases\n", explained)
        schema = json.loads(self.run_program("explain", "kinds.plain", "--schema", TOYS_KINDS="1")[1])
        self.assertEqual(schema["properties"]["value"]["properties"]["colour"], {"const": "red", "default": "red"})


class Preconditions(ProgramCase):
    TOO_MUCH = {"lockstep_case": 1, "scenario": "kinds.plain", "value": {"world": {"size": 2}, "number": 1000}}

    def write_case(self, *names):
        os.makedirs(os.path.dirname(self.path(*names)), exist_ok=True)
        with open(self.path(*names), "w", encoding="ascii") as case:
            json.dump(self.TOO_MUCH, case)
        return self.path(*names)

    def test_a_case_that_does_not_meet_one_is_skipped_and_not_run(self):
        status, out, _ = self.run_program("replay", self.write_case("case.json"), TOYS_KINDS="1")
        self.assertEqual(status, 77, out)
        self.assertRegex(out, r"SKIP .* kinds\.plain .* a thousand is too much\n")
        verdict = [event for event in self.events() if event["event"] == "verdict"][0]
        self.assertEqual((verdict["verdict"], "history" in verdict), ("refused", False))

    def test_an_archived_one_is_reported_and_does_not_count(self):
        self.write_case("failures", "kinds.plain-1.json")
        status, out, error = self.run_program("run", "kinds.plain", "--seed", "7", TOYS_KINDS="1")
        self.assertEqual(status, 0, out)
        self.assertIn("failures/kinds.plain-1.json is not run: a thousand is too much; it proves nothing: delete it\n", error)
        self.assertEqual(self.latest()["results"][0]["judged"], 30)
        status, _, error = self.run_program("run", "kinds.plain", "--failed", TOYS_KINDS="1")
        self.assertEqual(status, 4, error)

    def test_drawn_cases_that_a_flag_brings_outside_are_refused_with_the_reason(self):
        status, out, _ = self.run_program("run", "kinds.plain", "--seed", "7", "--set", "number=1000", TOYS_KINDS="1")
        self.assertEqual(status, 77, out)
        self.assertIn("a thousand is too much", out)


class Schedules(ProgramCase):
    def test_every_schedule_is_tried_and_counted(self):
        status, out, _ = self.run_program("run", "toys.hold_too", "--tier", "sim", "--seed", "7", "--world", "3",
                                          "--cases", "2", "--set", "world.schedule.policy=exhaustive")
        self.assertEqual(status, 0)
        self.assertRegex(out, r" world 3 · 12 schedules, all of 2 cases\n")
        self.assertEqual(self.latest()["results"][0]["schedules"],
                         {"run": 12, "cases": 2, "complete": 2, "decisions_min": 0})


class CutOff(ProgramCase):
    def kill_while_it_waits(self):
        process = self.start_waiting("-j", "2", "--cases", "2")
        process.kill()
        self.finish(process)
        running = [event["case"] for event in self.events() if event["event"] == "case"]
        self.wait_until_nothing_runs()
        self.release()
        for file in os.listdir(self.temporary):  # A killed run tidies nothing up.
            os.remove(os.path.join(self.temporary, file))
        return running

    def wait_until_nothing_runs(self):
        self.assertEqual(self.left_running(), [])

    def test_replay_runs_what_ran_when_a_runner_was_killed(self):
        running = self.kill_while_it_waits()
        status, _, error = self.run_program("replay", TOYS_PIPE=self.pipe)
        self.assertEqual(status, 0, error)
        self.assertRegex(error, r"runs/\d{8}-\d{6}-[0-9a-f]{4} was cut off; what ran there runs again\n")
        self.assertEqual([event["case"] for event in self.events() if event["event"] == "case"], running)
        self.assertEqual(self.latest()["results"][0]["scenario"], "toys.wait")

    def test_the_next_run_says_what_ran_when_a_runner_was_killed(self):
        self.kill_while_it_waits()
        said = "the last run was cut off while toys.wait, case "
        self.assertIn(said, self.run_program("run", "toys.hold", "--cases", "2")[2])
        self.assertNotIn(said, self.run_program("run", "toys.hold", "--cases", "2")[2], "once")

    def test_a_run_that_ended_or_goes_on_was_not_cut_off(self):
        self.run_program("run", "toys.multiply", "--seed", "7")
        waiting = self.start_waiting("--cases", "1")
        status, _, error = self.run_program("replay")
        self.assertEqual((status, error), (2, "lockstep: no run in .lockstep/runs was cut off; replay FILE runs a case file\n"))
        self.assertNotIn("cut off", self.run_program("run", "toys.hold", "--cases", "2")[2])
        self.release()
        self.assertEqual(self.finish(waiting)[0], 0)


class CaseFiles(ProgramCase):
    def test_the_case_that_is_explained_is_one_that_replay_takes(self):
        status, text, _ = self.run_program("explain", "toys.hold_too", "--case")
        self.assertEqual(status, 0)
        self.assertEqual(list(json.loads(text)["value"]), ["world", "factor", "loud"], "every field is there")
        with open(os.path.join(self.folder, "case.json"), "w", encoding="utf-8") as file:
            file.write(text)
        self.assertEqual(self.run_program("replay", "case.json")[0], 0)

    def test_a_schema_says_what_replay_takes(self):
        schema = json.loads(self.run_program("explain", "toys.hold_too", "--schema")[1])
        value = schema["properties"]["value"]
        self.assertEqual(value["properties"]["factor"],
                         {"minimum": 1, "maximum": 100, "type": "integer", "default": 1})
        self.assertEqual(value["properties"]["world"]["properties"]["reduction"]["enum"],
                         ["flat", "ring", "tree", "permuted"])
        self.assertFalse(value["additionalProperties"])
        self.assertEqual(schema["properties"]["scenario"], {"const": "toys.hold_too"})

    def test_a_case_and_a_schema_are_not_printed_together(self):
        self.assertEqual(self.run_program("explain", "toys.hold_too", "--case", "--schema")[0], 2)


if __name__ == "__main__":
    unittest.main()
