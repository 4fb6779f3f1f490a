"""Where cases run if nobody says where: all of them in simulated worlds, and a few in worlds of processes."""

import unittest

from program_case import ProgramCase


class Tiers(ProgramCase):
    def cases(self, *arguments):
        """{(scenario, tier): judged cases} of a run."""
        status, out, err = self.finish(self.start_as_given("run", "toys.hold_too", "--seed", "7", *arguments))
        self.assertEqual(status, 0, out + err)
        run = self.latest()
        self.assertEqual(run["canary"], "failed")
        return {(result["scenario"], result["tier"]): result["judged"] for result in run["results"]}

    def test_every_case_runs_on_sim_and_a_few_on_cold(self):
        self.assertEqual(self.cases("--cases", "50"), {("toys.hold_too", "sim"): 50, ("toys.hold_too", "cold"): 3})

    def test_thorough_runs_every_case_on_sim_warm_and_cold(self):
        self.assertEqual(self.cases("--cases", "20", "--thorough"),
                         {("toys.hold_too", tier): 20 for tier in ("sim", "warm", "cold")})

    def test_a_tier_that_is_named_runs_every_case(self):
        self.assertEqual(self.cases("--cases", "20", "--tier", "cold"), {("toys.hold_too", "cold"): 20})

    def test_thorough_and_a_tier_exclude_each_other(self):
        status, _, error = self.finish(self.start_as_given("run", "--thorough", "--tier", "cold"))
        self.assertEqual(status, 2)
        self.assertIn("--thorough and --tier exclude each other", error)

    def test_a_part_of_the_catalogue_has_the_canary_too(self):
        status, out, _ = self.finish(self.start_as_given("run", "toys.hold", "--seed", "7", TOYS_CANARY_PASSES="1"))
        self.assertEqual(status, 1)
        self.assertIn("canary", out)


if __name__ == "__main__":
    unittest.main()
