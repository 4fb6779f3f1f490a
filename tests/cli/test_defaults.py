"""Defaults of flags: lockstep.toml, over it a variable, over both the flag; and --format json."""

import json
import os
import unittest

from program_case import ProgramCase


class Defaults(ProgramCase):
    def write(self, text):
        with open(os.path.join(self.folder, "lockstep.toml"), "w", encoding="utf-8") as file:
            file.write(text)

    def seed_of(self, *arguments, **variables):
        status, out, err = self.run_program("run", "toys.hold", "--format", "json", *arguments, **variables)
        self.assertEqual(status, 0, err)
        return json.loads(out)["seed"]

    def refusal(self, *arguments, **variables):
        status, out, err = self.finish(self.start_as_given(*arguments, **variables))
        self.assertEqual((status, out), (2, ""), err)
        self.assertEqual(err.count("\n"), 1, "one sentence")
        return err

    def test_a_flag_goes_before_a_variable_and_a_variable_before_the_file(self):
        self.write("# of this project\n[run]\nseed = 1  # drawn once\n")
        self.assertEqual(self.seed_of(), "0x1")
        self.assertEqual(self.seed_of(LOCKSTEP_RUN_SEED="2"), "0x2")
        self.assertEqual(self.seed_of("--seed", "3", LOCKSTEP_RUN_SEED="2"), "0x3")
        self.assertEqual(self.seed_of(LOCKSTEP_RUN_SEED=""), "0x1")  # As one that is not set.

    def test_each_kind_of_flag_has_a_default(self):
        self.write('[run]\nseed = "7"\nexclude = ["*mul*", "*too"]\nq = true\ncases = 1\n[judge]\ncolor = "never"\n')
        status, out, err = self.run_program("run", "toys.hold", "toys.mul*")
        self.assertEqual((status, err), (0, ""))
        self.assertNotIn("PASS", out)
        self.assertIn("1 scenario: 1 passed   1 case ", out)
        _, out, _ = self.run_program("run", "toys.hold", "--exclude", "toys.bare", "-q", LOCKSTEP_RUN_CASES="2")
        self.assertIn("2 scenarios: 2 passed   4 cases ", out)
        self.write('[run]\ntier = ["sim", "cold"]\n')
        _, out, _ = self.finish(self.start_as_given("run", "toys.hold", "--dry-run"))
        self.assertRegex(out, r"(?s)toys sim .*toys cold |toy sim .*toy cold ")

    def test_what_names_nothing_is_refused_in_a_sentence(self):
        for text, said in (("[run]\nsede = 1\n", "lockstep.toml: 'run' has no flag 'sede' (did you mean 'seed'"),
                           ("[judge]\nhtlm = 1\n", "lockstep.toml: 'judge' has no flag 'htlm' (did you mean 'html'?)"),
                           ("[rum]\nseed = 1\n", "lockstep.toml: no command is named 'rum' (did you mean 'run'?)"),
                           ("[rum]\n", "lockstep.toml: no command is named 'rum' (did you mean 'run'?)"),
                           ("seed = 1\n", "lockstep.toml: seed stands in no section; a section names a command: [run]"),
                           ("[run]\nthorough = perhaps\n", "lockstep.toml: thorough of [run]: "),
                           ("[run]\nout = \"\"\n", "lockstep.toml: out of [run]: --out: is empty"),
                           ("[run]\ncases = many\n", "lockstep.toml: cases of [run]: --cases many: expected a whole number from 1 to 1,000,000")):
            self.write(text)
            self.assertIn(said, self.refusal("run", "toys.hold"), text)
        os.remove(os.path.join(self.folder, "lockstep.toml"))
        self.assertIn("the variable LOCKSTEP_RUN_SEDE names no flag of 'run' (did you mean 'LOCKSTEP_RUN_SEED'",
                      self.refusal("run", "toys.hold", LOCKSTEP_RUN_SEDE="1"))
        os.mkdir(os.path.join(self.folder, "lockstep.toml"))
        self.assertIn("lockstep.toml cannot be read", self.refusal("run", "toys.hold"))

    def test_json_is_all_that_stdout_has(self):
        for variables in ({}, {"GITHUB_ACTIONS": "true"}):
            status, out, err = self.run_program("run", "toys.multiply", "--seed", "7", "--format", "json", **variables)
            self.assertEqual(status, 1)
            run = json.loads(out)
            self.assertEqual((run["exit_code"], len(run["results"])), (1, 1))
            self.assertIn("FAIL", err)
            self.assertNotIn("::error", out + err)
        self.assertEqual(run["results"], self.latest()["results"])
        _, out, _ = self.run_program("report", ".lockstep", "--format", "json")
        self.assertEqual(json.loads(out)["results"], run["results"])
        _, out, _ = self.run_program("list", "toys.mul", "--format", "json")
        self.assertEqual([each["name"] for each in json.loads(out)["scenarios"]], ["toys.multiply"])
        self.assertIn("unknown value 'yaml'; known: text, json", self.refusal("list", "--format", "yaml"))
        self.assertIn("--dry-run and --format exclude each other", self.refusal("run", "--dry-run", "--format", "json"))


if __name__ == "__main__":
    unittest.main()
