"""Trainings as several ranks beside one process: right ones hold in every format, and mistakes that all ranks make alike are
caught and named.

usage: test_against.py LOCKSTEP
"""

import os
import subprocess

from recorded_case import RecordedCase, main

CLEAN = [(dtype, world) for dtype in ("float32", "bfloat16", "float16") for world in (2, 4)] + [("autocast", 2), ("uneven", 2), ("words", 2), ("bare", 2), ("by_hand", 2)]
# Divided over the ranks, each beside one process that divides nothing.
DIVIDED = [(name, world) for name in ("fully_shard", "fsdp") for world in (2, 4)]
# Program -> the one process that it is judged against, the invariant that finds its mistake, the pattern, and the place's begin.
VALUES, DATA = "values.follow_one_process", "data.is_that_of_one_process"
MISTAKES = {
    "sum": ("float32", VALUES, "sum_not_average", "step 0, backward, "),
    "sum in bfloat16": ("bfloat16", VALUES, "sum_not_average", "step 0, backward, "),
    "scaled_rate": ("float32", VALUES, "update_off_by_world", "step 0, update, "),
    "dropped": ("float32", VALUES, "ranks_agree_reference_differs", "step 0, backward, "),
    "dropped in bfloat16": ("bfloat16", VALUES, "ranks_agree_reference_differs", "step 0, backward, "),
    "dropped in float16": ("float16", VALUES, "ranks_agree_reference_differs", "step 0, backward, "),
    "unweighted": ("uneven", VALUES, "average_of_averages", "step 0, backward, "),
    "unweighted in bfloat16": ("uneven in bfloat16", VALUES, "average_of_averages", "step 0, backward, "),
    "words_unweighted": ("words", VALUES, "average_of_averages", "step 0, backward, "),
    "bare_sum": ("bare_sum", VALUES, "divided_twice", "step 0, backward, "),
    "by_hand_sum": ("by_hand", VALUES, "sum_not_average", "step 0, backward, "),
    "batch_norm": ("batch_norm", VALUES, "ranks_agree_reference_differs", "step 0, backward, "),
    "other_seed": ("float32", DATA, "other_batches", "pass 0 of loader 0, batch 0"),
    "padded": ("padded", DATA, "other_batches", "pass 0 of loader 0, batch 5"),
}


class Beside(RecordedCase):
    @classmethod
    def setUpClass(cls):
        ones = {name for name, _ in CLEAN} | {mistake[0] for mistake in MISTAKES.values()}
        wanted = ["%s:1" % name for name in sorted(ones)] + ["%s:%d" % clean for clean in CLEAN]
        wanted += [name + ":2" for name in MISTAKES] + ["digests:2"] + ["%s:%d" % divided for divided in DIVIDED]
        wanted += ["unseeded:1", "unseeded:2"]
        cls.record("lockstep against ", "one_process.py", wanted)

    def judged(self, run, one):
        return self.judge(run, "--against", os.path.join(self.folder, one), statuses=(0, 1))

    def test_a_right_training_holds_in_every_format_and_world(self):
        for name, world in CLEAN:
            with self.subTest(program=name, world=world):
                result, results = self.judged("%s-%d" % (name, world), name + "-1")
                self.assertEqual(result.returncode, 0, result.stdout)
                self.assertEqual([results[invariant]["result"] for invariant in (VALUES, DATA)], ["pass", "pass"])

    def test_what_is_divided_over_the_ranks_is_put_together(self):
        for name, world in DIVIDED:
            with self.subTest(program=name, world=world):
                result, results = self.judged("%s-%d" % (name, world), "float32-1")
                self.assertEqual(result.returncode, 0, result.stdout)
                self.assertEqual(results[VALUES]["result"], "pass", result.stdout)
                self.assertIn("divided over the ranks", str(results["parameters.are_the_same"]["refused"]))
                alone, _ = self.judge("%s-%d" % (name, world), statuses=(77,))
                self.assertIn("not judged", alone.stdout)

    def test_runs_that_begin_with_other_parameters_are_not_judged(self):
        result, results = self.judge("unseeded-2", "--against", os.path.join(self.folder, "unseeded-1"), statuses=(3,))
        self.assertEqual(results[VALUES]["findings"][0]["pattern"], "begins_with_other_parameters", result.stdout)

    def test_each_mistake_is_caught_at_its_step_and_named(self):
        for name, (one, invariant, pattern, place) in MISTAKES.items():
            with self.subTest(mistake=name):
                result, results = self.judged(name + "-2", one + "-1")
                self.assertEqual((result.returncode, results[invariant]["result"]), (1, "fail"), result.stdout)
                finding = results[invariant]["findings"][0]
                self.assertEqual(finding["pattern"], pattern, result.stdout)
                self.assertTrue(finding["where"].startswith(place), finding["where"])

    def test_an_average_over_the_words_of_each_rank_is_recognised_by_their_numbers(self):
        _, results = self.judged("words_unweighted-2", "words-1")
        self.assertIn("mean of means: ranks have 12 and 16 terms", results[VALUES]["findings"][0]["text"])

    def test_a_model_with_batch_norm_has_the_reason_why_it_differs(self):
        _, results = self.judged("batch_norm-2", "batch_norm-1")
        self.assertIn("SyncBatchNorm takes those of all ranks' batches", results[VALUES]["findings"][0]["text"])

    def test_what_cannot_be_compared_is_refused_with_the_cure(self):
        for run, one, sentence in (("digests-2", "float32-1", "digests-2: has digests of tensors and no values, which a "
                                    "comparison with one process needs; record it with LOCKSTEP_RECORD_VALUES=10"),
                                   ("float32-2", "float32-4", "float32-4: is a run of 4 ranks; expected one process"),
                                   ("float32-2", "float32-1/perturbed-1", "was recorded with LOCKSTEP_RECORD_PERTURB=1")):
            result = subprocess.run([self.lockstep, "judge", os.path.join(self.folder, run), "--against", os.path.join(self.folder, one)],
                                    capture_output=True, text=True, timeout=120, check=False)
            self.assertEqual((result.returncode, result.stdout), (2, ""))
            self.assertIn(sentence, result.stderr)


if __name__ == "__main__":
    main()
