"""How much of the cases a run plays: which scenarios, archived failures alone, until when, how often."""

import os
import unittest

from program_case import ProgramCase


class Selecting(ProgramCase):
    def test_failed_plays_what_is_archived_and_nothing_else(self):
        self.run_program("run", "toys.hold", "toys.multiply", "--seed", "7")
        archived = self.latest()["results"][-1]["failure"]["case"]
        status, _, _ = self.run_program("run", "--failed", "--seed", "8")
        played = [event for event in self.events() if event["event"] == "case"]
        self.assertEqual(status, 1)
        self.assertEqual({event["scenario"] for event in played}, {"toys.multiply"})
        self.assertTrue(all(event["case"] == archived for event in played))
        self.assertEqual([result["scenario"] for result in self.latest()["results"]], ["toys.multiply"])

    def test_failed_without_an_archived_failure_selects_nothing(self):
        status, _, error = self.run_program("run", "--failed")
        self.assertEqual((status, error), (4, "lockstep: no failure of these scenarios is archived in .lockstep/failures\n"))

    def test_what_is_excluded_is_not_played(self):
        self.run_program("run", "toys.hold", "--exclude", "*_too")
        self.assertEqual([result["scenario"] for result in self.latest()["results"]], ["toys.hold"])


class Planning(ProgramCase):
    def test_a_plan_plays_nothing_and_says_how_many_cases_a_run_plays(self):
        status, out, _ = self.run_program("run", "toys.hold", "--seed", "7", "--plan")
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
        out = self.run_program("run", "toys.hold_too", "toys.bare", "--cases", "2", "--plan")[1]
        self.assertRegex(out, r"toys.hold_too +toy cold gloo +2 cases +4\.0 s\n")
        self.assertRegex(out, r"toys.bare +toy cold gloo +1 case +2\.0 s\n", "as the others of its tier")


if __name__ == "__main__":
    unittest.main()
