"""Examples that are recorded under `launch` and judged: right ones are clean, and each usual mistake is caught and named."""

import json
import os
import tempfile
import unittest

from package_case import run
from ranks import run_ranks

DEADLINE_S = 120
WORLDS = (1, 2, 4)
NO_TERMS = "gradients.are_averages"  # The recorder of C++ writes none.
# Name -> the other invariants that a run of several ranks gives nothing to judge, and the example with its arguments.
NO_DROPOUT, NO_WINDOW, NO_BUFFERS = "random.streams_differ", "gradients.differ_in_no_sync", "buffers.follow_rank_zero"
CLEAN = {
    "images": ({NO_DROPOUT, NO_WINDOW, NO_BUFFERS}, "cifar10", "--data", "cifar", "--batch", "20", "--epochs", "2"),
    "images, a rank's own statistics": ({NO_DROPOUT, NO_WINDOW, NO_BUFFERS}, "cifar10", "--data", "cifar", "--batch", "20",
                                        "--epochs", "2", "--sync-batchnorm", "0"),
    "statistics of small batches": ({NO_DROPOUT, NO_WINDOW, NO_BUFFERS}, "cifar10", "--data", "cifar", "--batch", "4",
                                    "--epochs", "2"),
    "texts": ({NO_WINDOW, NO_BUFFERS}, "reviews", "--data", "reviews.csv", "--epochs", "2", "--model", "transformer"),
    "accumulation": ({NO_BUFFERS}, "recorded"),
    "uneven inputs, in a join": ({NO_BUFFERS}, "recorded", "--uneven", "1"),
}
# The mistake that `recorded --wrong` plants -> the invariant that finds it, and the pattern that it names.
MISTAKES = {
    "loaded": ("parameters.are_the_same", "no_two_ranks_agree"),
    "learning_rate": ("optimizer.has_one_setting", "no_two_ranks_agree"),
    "dataset": ("data.is_one_dataset", "other_length"),
    "early": ("run.has_one_length", "stopped_early"),
    "fewer": ("run.has_one_length", "stopped_early"),
    "throws": ("run.is_recorded_whole", "threw"),
    "bare": ("forward.runs_through_the_wrapper", "update_not_averaged"),
    "epoch": ("data.order_changes", "epoch_ignored"),
    "shuffle": ("data.is_partitioned", "every_rank_draws_all"),
    "seed": ("random.streams_differ", "same_random_stream"),
    "optimizer": ("optimizer.owns_parameters_once", "two_optimizers"),
    "evaluation": ("data.evaluates_each_sample_once", "evaluation_padded"),
    "collective": ("collectives.have_one_order", "mismatched_collectives"),
}
# True, and customary: no failure.
REMARKS = ("seed",)


class RecordedCase(unittest.TestCase):
    """`build`, `folder` and `lockstep`, the program, are a derived class's."""

    def recorded(self, size, name, *arguments):
        """{invariant: result} of an example, and what the launcher said."""
        folder = tempfile.mkdtemp(dir=self.folder)
        record, report = os.path.join(folder, "run"), os.path.join(folder, "run.json")
        _, said = run([self.lockstep, "launch", "--record", record, "-n", str(size), "--", os.path.join(self.build, name),
                       *arguments], DEADLINE_S)
        status, judged = run([self.lockstep, "judge", record, "--json", report], DEADLINE_S)
        self.assertIn(status, (0, 1, 3), said + judged)
        with open(report, encoding="utf-8") as file:
            return {each["scenario"]: each for each in json.load(file)["results"]}, said

    def test_recorded_examples_are_judged_clean_in_every_world(self):
        cifar, reviews = os.path.join(self.folder, "recorded cifar"), os.path.join(self.folder, "recorded reviews.csv")
        for name, path, count in (("cifar10", cifar, "8"), ("reviews", reviews, "60")):
            self.assertEqual(run_ranks(os.path.join(self.build, name), [{}], "--data", path, "--make", count), [(0, "", "")])
        for name, (skipped, *command) in CLEAN.items():
            command = [{"cifar": cifar, "reviews.csv": reviews}.get(word, word) for word in command]
            for size in WORLDS:
                with self.subTest(program=name, world=size):
                    results, said = self.recorded(size, *command)
                    self.assertEqual({each["result"] for each in results.values()}, {"pass", "skip"}, (results, said))
                    if size > 1:
                        self.assertEqual({invariant for invariant, each in results.items() if each["result"] == "skip"}, skipped | {NO_TERMS})

    def test_each_usual_mistake_is_caught_and_named(self):
        for wrong, (invariant, pattern) in MISTAKES.items():
            with self.subTest(mistake=wrong):
                results, said = self.recorded(2, "recorded", "--wrong", wrong)
                found = results[invariant]["findings"] + results[invariant].get("remarks", [])
                self.assertEqual(results[invariant]["result"], "pass" if wrong in REMARKS else "fail", said)
                self.assertEqual(found[0]["pattern"], pattern, found)

    def test_a_rank_that_is_killed_leaves_what_it_recorded(self):
        results, said = self.recorded(2, "recorded", "--wrong", "killed")
        self.assertIn("rank 1", said)
        ends = results["run.is_recorded_whole"]
        self.assertIn((ends["result"], ends["findings"][0]["pattern"]), (("fail", "lost"), ("inconclusive", "cut_off")))
        self.assertEqual(results["parameters.are_the_same"]["result"], "pass")
