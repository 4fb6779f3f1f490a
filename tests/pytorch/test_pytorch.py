"""The subject pytorch on every tier: PyTorch's own DistributedDataParallel, judged by the program.

LOCKSTEP names the program. Where it was built without PyTorch, what needs it is skipped, and that it
says so is a test of its own.
"""

import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = os.environ.get("LOCKSTEP", "")
PATIENCE_S = 600
ALL_SKIPPED, FAILED = 77, 1


def run(*arguments, folder=None, **variables):
    """(exit status, its output) of a run."""
    result = subprocess.run([PROGRAM, *arguments], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            text=True, errors="replace", timeout=PATIENCE_S, check=False,
                            env={**os.environ, **variables})
    return result.returncode, result.stdout


def why_it_is_missing():
    with tempfile.TemporaryDirectory() as folder:
        status, said = run("run", "sampler.partitions", "--subject", "pytorch", "--cases", "1", "--out", folder)
    return " ".join(said.split()) if status == ALL_SKIPPED else ""


MISSING = why_it_is_missing()


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="lockstep pytorch ")  # A space, since some have one.
        self.addCleanup(shutil.rmtree, self.folder)

    def judged(self, *arguments, **variables):
        """(exit status, run.json, output) of a run of the subject."""
        out = os.path.join(self.folder, "out")
        path = os.path.join(self.folder, "run.json")
        status, said = run("run", *arguments, "--subject", "pytorch", "--seed", "7", "--out", out, "--json", path,
                           **variables)
        with open(path, encoding="utf-8") as file:
            return status, json.load(file), said


class Reported(Case):
    def test_doctor_says_whether_the_subject_can_be_used(self):
        _, said = run("doctor")
        self.assertRegex(said, r"(?m)^    pytorch +(yes: --subject pytorch$|no: .*(setup --peer|-DLOCKSTEP_TORCH=|sanitizers))")


class Missing(Case):
    @unittest.skipUnless(MISSING, "this program was built with PyTorch")
    def test_every_scenario_is_skipped_with_the_command_that_installs_it(self):
        status, report, said = self.judged("sampler.partitions", "gradients.undefined", "--cases", "2")
        self.assertEqual(status, ALL_SKIPPED, said)
        self.assertEqual({result["result"] for result in report["results"]}, {"skip"})
        self.assertIn("./lockstep setup --peer", said)


@unittest.skipIf(MISSING, MISSING)
class Judged(Case):
    TIERS = "sim,warm,cold"

    def test_what_pytorch_does_right_holds_on_every_tier(self):
        status, report, said = self.judged("gradients.undefined", "--tier", self.TIERS, "--cases", "3")
        self.assertEqual(status, 0, said)
        self.assertEqual([result["result"] for result in report["results"]], ["pass"] * 3)

    def test_its_sampler_holds_and_refuses_what_it_lacks(self):
        status, report, said = self.judged("sampler.partitions", "--tier", "sim", "--cases", "12")
        self.assertEqual(status, 0, said)
        self.assertEqual(set(report["results"][0]["refused"]),
                         {"PyTorch's DistributedSampler always repeats samples, unless it drops some",
                          "PyTorch's DistributedSampler always stores its order"})

    def test_its_averaged_and_its_sharded_optimizers_hold_on_every_tier(self):
        status, report, said = self.judged("averaging", "--tier", self.TIERS, "--cases", "19")
        self.assertEqual(status, 0, said)
        self.assertTrue(all(result["judged"] >= 10 for result in report["results"]), said)

    def test_every_rank_refuses_a_dtype_that_comes_later_to_some_ranks(self):
        case = os.path.join(self.folder, "case.json")
        with open(case, "w", encoding="utf-8") as file:
            json.dump({"lockstep_case": 1, "scenario": "averaging.sharded_optimizer_is_the_whole",
                       "value": {"world": {"size": 2}, "steps": 2, "sizes": [1, 1], "dtypes": ["float64", "float32"],
                                 "groups": 2, "late_group": 1, "resume": 1}}, file)
        for tier in self.TIERS.split(","):
            status, said = run("replay", case, "--subject", "pytorch", "--tier", tier, folder=self.folder)
            self.assertEqual(status, ALL_SKIPPED, said)
            self.assertIn("takes parameters of one dtype alone", " ".join(said.split()))

    def test_its_power_sgd_holds_within_the_bounds_of_ours_where_a_callback_may_wait(self):
        status, report, said = self.judged("hooks.power_sgd", "--tier", "sim,warm", "--cases", "12")
        self.assertEqual(status, 0, said)
        sim, warm = report["results"]
        self.assertEqual((sim["result"], warm["result"]), ("pass", "skip"), said)
        self.assertGreaterEqual(sim["judged"], 20, said)
        self.assertIn("the one Gloo thread of these worlds does not suffice", json.dumps(warm["refused"]))

    def test_every_tier_finds_the_same_in_the_same_cases(self):
        _, report, said = self.judged("gradients.average", "--tier", self.TIERS, "--cases", "6", "--keep-going",
                                      "--no-shrink")
        self.assertEqual(len(report["results"]), 3, said)
        self.assertEqual(len({json.dumps(result.get("signatures")) for result in report["results"]}), 1, said)

    def test_an_error_in_its_own_words_is_judged_by_the_ranks_that_throw(self):
        # Its texts for ranks with and without inputs differ, and name no rank.
        status, _, said = self.judged("join.uneven", "--tier", "sim", "--cases", "6", "--set", "options.static_graph=false",
                                      "--set", "normalises=false")
        self.assertEqual(status, 0, said)

    def test_an_error_of_python_has_its_type_its_text_and_its_line(self):
        status, _, said = self.judged("replicas.start_equal", "--tier", "warm", "--cases", "1", "--no-shrink")
        self.assertEqual(status, FAILED, said)
        self.assertRegex(said, r"threw: RuntimeError: Invalid scalar type "  # int16, which Gloo does not broadcast
                         r"\(utils\.py:\d+, in _sync_params_and_buffers\), at step 0, wrapping")

    def test_one_libtorch_is_in_the_process_whatever_the_loader_would_take(self):
        status, _, said = self.judged("gradients.undefined", "--tier", "warm", "--cases", "2", LD_LIBRARY_PATH="/nowhere")
        self.assertEqual(status, 0, said)


def findings():
    """[(case file, what its row says of the failure)] of docs/findings.md."""
    with open(os.path.join(ROOT, "docs", "findings.md"), encoding="utf-8") as page:
        return re.findall(r"(?m)^\| \[\w+\]\((findings/\w+\.json)\) \|.*?`([^`|]+)` \|(?: works \|)?$", page.read())


class Findings(Case):
    def replayed(self, file, subject):
        return run("replay", os.path.join(ROOT, "docs", file), "--subject", subject, "--tier", "sim", "--out",
                   os.path.join(self.folder, "out"))

    def test_each_file_has_a_row(self):
        files = [file for file, _ in findings()]
        there = ["findings/" + name for name in os.listdir(os.path.join(ROOT, "docs/findings"))]
        self.assertEqual(sorted(files), sorted(name for name in there if name.endswith(".json")))
        with open(os.path.join(ROOT, "docs", "findings.md"), encoding="utf-8") as page:
            text = page.read()
        for name in there:
            self.assertIn("](%s)" % name, text)

    @unittest.skipIf(MISSING, MISSING)
    def test_each_fails_on_pytorch_with_its_diagnosis(self):
        for file, diagnosis in findings():
            with self.subTest(file=file):
                status, said = self.replayed(file, "pytorch")
                self.assertEqual(status, FAILED, said)
                self.assertIn(diagnosis, said)

    @unittest.skipIf(MISSING, MISSING)
    def test_a_power_sgd_loaded_on_one_rank_loses_gradients_or_waits(self):
        python = os.path.join(ROOT, ".venv-peer/bin/python")
        if not os.path.exists(python):
            self.skipTest("this tree has no .venv-peer: ./lockstep setup --peer")
        program = os.path.join(ROOT, "docs/findings/power_sgd_loaded_on_one_rank.py")
        for mode, missing, error in ([], r"0\.\d+", None), (["right"], r"\d(\.\d+)?e-0\d", None), (["early"], None, "Timed out waiting 5000ms"):
            with self.subTest(mode=mode):
                status, said = run("launch", "-n", "2", "--", python, program, *mode, folder=self.folder)
                self.assertEqual(status != 0, mode != ["right"], said)
                self.assertEqual(len(re.findall(rf"rank \d: .* {missing} is missing\n", said)), 2 if missing else 0, said)
                self.assertIn(error or "", said)


def reported_signatures():
    """[(scenario, signature, why)] of docs/findings.md; a signature of None stands for all of that scenario's."""
    with open(os.path.join(ROOT, "docs", "findings.md"), encoding="utf-8") as page:
        rows = re.findall(r"(?m)^\| ((?:`[\w.]+`(?:, )?)+) \| (`[^`]+`|every signature) \| (.*) \|$", page.read())
    return [(scenario, None if signature == "every signature" else signature.strip("`"), why)
            for scenarios, signature, why in rows for scenario in re.findall(r"`([\w.]+)`", scenarios)]


class Catalogue(Case):
    def test_each_row_says_which_finding_or_which_rule_of_ours_it_is(self):
        with open(os.path.join(ROOT, "docs", "semantics.md"), encoding="utf-8") as page:
            rules = page.read()
        files = [name[:-len(".json")] for name in os.listdir(os.path.join(ROOT, "docs", "findings"))]
        rows = reported_signatures()
        self.assertGreater(len(rows), 30)
        for scenario, signature, why in rows:
            with self.subTest(scenario=scenario, signature=signature):
                numbers = re.findall(r"\b\d\.\d+\b", why.split("semantics ", 1)[-1]) if "semantics " in why else []
                self.assertTrue(numbers or any(file in why for file in files), why)
                for number in numbers:
                    self.assertRegex(rules, rf"(?m)^(\| {re.escape(number)} \||#+ {re.escape(number)} )")

    @unittest.skipIf(MISSING, MISSING)
    def test_what_fails_is_in_the_table(self):
        told = {(scenario, signature) for scenario, signature, _ in reported_signatures()}
        _, report, said = self.judged("replicas.start", "gradients", "accumulation", "join.uneven", "failures.exception",
                                      "--tier", "sim", "--world", "2", "--cases", "4", "--keep-going", "--no-shrink")
        seen = {(result["scenario"], signature) for result in report["results"] for signature in result.get("signatures", {})}
        self.assertGreater(len(seen), 5, said)
        self.assertEqual({each for each in seen if each not in told and (each[0], None) not in told}, set())


if __name__ == "__main__":
    if not os.path.exists(PROGRAM):
        raise SystemExit("LOCKSTEP=%s names no program" % PROGRAM)
    unittest.main()
