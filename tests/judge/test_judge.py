"""Real programs in PyTorch, recorded and judged: right ones are clean, and each usual mistake is caught and named.

usage: test_judge.py LOCKSTEP
"""

import json
import os
import re
import subprocess
import unittest

from recorded_case import HERE, PYTHON, ROOT, RecordedCase, main

CLEAN = ("images", "texts", "accumulation", "two_models", "uneven", "local_sgd", "local_sgd_in_no_sync", "local_sgd_by_hook",
         "averaged_in_no_sync", "two_stages", "own_updates", "penalty")
# Program -> the invariant that finds its mistake, and the pattern that it names.
MISTAKES = {
    "loaded_on_rank_zero": ("parameters.are_the_same", "changed_on_some_ranks"),
    "other_learning_rate": ("optimizer.has_one_setting", "no_two_ranks_agree"),
    "bare_forward": ("forward.runs_through_the_wrapper", "bare_forward"),
    "never_synchronised": ("forward.runs_through_the_wrapper", "update_not_averaged"),
    "last_in_no_sync": ("forward.runs_through_the_wrapper", "update_not_averaged"),
    "set_epoch_forgotten": ("data.order_changes", "epoch_ignored"),
    "shuffle_without_sampler": ("data.is_partitioned", "every_rank_draws_all"),
    "files_without_sampler": ("data.is_partitioned", "every_rank_draws_all"),
    "padded_evaluation": ("data.evaluates_each_sample_once", "evaluation_padded"),
    "early_stop": ("run.has_one_length", "stopped_early"),
    "one_step_fewer": ("run.has_one_length", "stopped_early"),
    "extra_collective": ("collectives.have_one_order", "mismatched_collectives"),
    "second_optimizer": ("optimizer.owns_parameters_once", "two_optimizers"),
    "dataset_differs": ("data.is_one_dataset", "other_length"),
    "clipped_on_one_rank": ("parameters.are_the_same", "no_two_ranks_agree"),
    "other_tensors": ("optimizer.owns_parameters_once", "steps_other_tensors"),
    "same_data": ("gradients.differ_in_no_sync", "same_data"),
    "diverges": ("values.stay_finite", "not_finite"),
    "throws": ("run.is_recorded_whole", "threw"),
    "loaded_after_a_join": ("parameters.are_the_same", "changed_on_some_ranks"),
    "clipped_after_a_join": ("parameters.are_the_same", "no_two_ranks_agree"),
}
# Program -> the invariant of which it is a remark, and the pattern.
CUSTOMS = {
    "one_seed": ("random.streams_differ", "same_random_stream"),
    "unused_parameter": ("gradients.reach_every_parameter", "never_a_gradient"),
}
RESUMED = ("first_run", "resumed", "resumed_at_epoch_zero", "another_run")


class Programs(RecordedCase):
    @classmethod
    def setUpClass(cls):
        wanted = ["%s:%d" % (name, world) for name in CLEAN for world in (1, 2, 4)]
        wanted += [name + ":2" for name in (*MISTAKES, *CUSTOMS, *RESUMED, "killed", "divided_state", "without_futures", "stages")]
        wanted += ["given_to_one:4", "ensemble:4", "ensemble_with_one_reset:4"]
        cls.record("lockstep judge ", "programs.py", wanted)

    def judged(self, name, *flags):
        return self.judge(name, *flags, statuses=(0, 1, 3, 77))

    def test_right_programs_are_clean_in_every_world(self):
        for name in [*("%s-%d" % (name, world) for name in CLEAN for world in (1, 2, 4)), "given_to_one-4", "ensemble-4"]:
            with self.subTest(program=name):
                result, results = self.judged(name)
                self.assertEqual(result.returncode, 0, result.stdout)
                self.assertEqual(results["run.is_recorded_whole"]["result"], "pass")

    def test_each_usual_mistake_is_caught_and_named(self):
        for name, (invariant, pattern) in MISTAKES.items():
            with self.subTest(mistake=name):
                result, results = self.judged(name + "-2")
                self.assertEqual(result.returncode, 1, result.stdout)
                self.assertEqual(results[invariant]["result"], "fail", result.stdout)
                self.assertEqual(results[invariant]["findings"][0]["pattern"], pattern, result.stdout)

    def test_what_is_customary_is_a_remark_which_a_strict_judgement_fails(self):
        for name, (invariant, pattern) in CUSTOMS.items():
            with self.subTest(custom=name):
                result, results = self.judged(name + "-2")
                self.assertEqual(result.returncode, 0, result.stdout)
                self.assertEqual(results[invariant]["remarks"][0]["pattern"], pattern)
                result, results = self.judged(name + "-2", "--strict")
                self.assertEqual((result.returncode, results[invariant]["result"]), (1, "fail"), result.stdout)

    def test_a_resumed_run_draws_no_order_that_the_run_before_has_drawn(self):
        after = ("--after", os.path.join(self.folder, "first_run-2"))
        for name, status, kind in (("resumed", 0, "pass"), ("resumed_at_epoch_zero", 1, "fail"), ("another_run", 77, "skip")):
            with self.subTest(program=name):
                result, results = self.judged(name + "-2", *after)
                self.assertEqual((result.returncode, results["data.order_continues"]["result"]), (status, kind), result.stdout)
        _, results = self.judged("resumed_at_epoch_zero-2", *after)
        finding = results["data.order_continues"]["findings"][0]
        self.assertEqual(finding["pattern"], "epoch_drawn_before")
        self.assertIn("which that run had made before step 6, where this one continues", finding["text"])

    def test_a_mistake_is_one_failure(self):
        for name in ("early_stop", "other_learning_rate", "bare_forward", "clipped_on_one_rank"):
            with self.subTest(mistake=name):
                _, results = self.judged(name + "-2")
                self.assertEqual([each for each in results.values() if each["result"] == "fail"],
                                 [results[MISTAKES[name][0]]])

    def test_no_library_of_torch_is_loaded(self):
        libraries = subprocess.run(["ldd", RecordedCase.lockstep], capture_output=True, text=True, timeout=60, check=True).stdout
        self.assertNotIn("torch", libraries)

    def test_a_rank_that_was_killed_leaves_what_it_recorded(self):
        _, results = self.judged("killed-2")
        ends = results["run.is_recorded_whole"]
        self.assertEqual(ends["findings"][0]["pattern"], "lost")
        self.assertIn("rank 1 stopped in step 1, update without an ending", ends["findings"][0]["text"])
        self.assertEqual(results["parameters.are_the_same"]["result"], "pass")
        self.assertEqual(results["collectives.have_one_order"]["result"], "pass")

    def test_a_invariant_without_material_is_skipped_with_its_reason(self):
        _, results = self.judged("texts-2")
        self.assertEqual(results["buffers.follow_rank_zero"]["refused"], {"no forward broadcast buffers": 1})

    def test_a_trace_shows_a_process_a_rank_and_the_table_who_waited(self):
        folder = os.path.join(self.folder, "images-2")
        result = subprocess.run([RecordedCase.lockstep, "trace", folder], capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, r"images\.py, 2 ranks, .* from the first record to the last\n")
        self.assertRegex(result.stdout, r"\nddp_backward +12 ")
        self.assertRegex(result.stdout, r"\nrank [01] waited .* for rank [01], in \d+ collectives?\n")
        with open(os.path.join(folder, "trace.json"), encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
        for rank in (0, 1):
            spans = [event["name"] for event in events if event["ph"] == "X" and event["pid"] == rank]
            for name, count in (("step 11", 1), ("forward", 12), ("backward", 12), ("update", 12)):
                self.assertEqual(spans.count(name), count, name)
            begun, done = ({event["id"]: event["name"] for event in events if event["ph"] == kind and event["pid"] == rank}
                           for kind in "be")
            self.assertEqual(begun, done)
            self.assertIn("barrier", begun.values())

    def test_a_collective_that_nobody_waits_for_in_its_call_is_done_when_it_is(self):
        with open(os.path.join(self.folder, "texts-2", "rank0.history"), "rb") as file:
            content = file.read()
        issued = re.search(rb'"op":"allreduce","group":"world","dtype":"float32","sequence":(\d+)', content)
        self.assertIn(b'{"group":"world","sequence":%s,' % issued[1], content)

    def test_one_without_a_future_is_done_when_it_was_waited_for(self):
        with open(os.path.join(self.folder, "without_futures-2", "rank0.history"), "rb") as file:
            content = file.read()
        issued = re.search(rb'"op":"allreduce","group":"world","dtype":"float32","sequence":(\d+)', content)
        self.assertEqual(content.count(b'{"group":"world","sequence":%s,' % issued[1]), 1)

    def test_an_optimizer_that_divides_its_state_is_no_mistake(self):
        result, results = self.judged("divided_state-2")
        self.assertEqual(result.returncode, 0, result.stdout)
        self.assertEqual(results["parameters.are_the_same"]["result"], "pass")
        self.assertIn(results["optimizer.has_one_state"]["result"], ("pass", "skip"))
        self.assertEqual(results["run.has_one_length"]["exactness"], "12 updates")

    def test_stages_of_a_pipeline_are_not_judged(self):
        result, _ = self.judge("stages-2", statuses=(77,))
        self.assertIn("as the stages of a pipeline do", result.stdout)

    def test_groups_that_train_a_model_each_are_judged_each(self):
        _, results = self.judged("ensemble_with_one_reset-4")
        text = results["parameters.are_the_same"]["findings"][0]["text"]
        self.assertTrue(text.startswith("among ranks 2, 3, numbered from 0: "), text)

    def test_a_program_under_torchrun_is_recorded_as_it_is(self):
        folder = os.path.join(self.folder, "torchrun")
        command = [os.path.join(os.path.dirname(PYTHON), "torchrun"), "--standalone", "--nproc-per-node", "2", "-m",
                   "lockstep_recorder", "--record", folder, os.path.join(HERE, "train.py")]
        result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env={
            **os.environ, "PYTHONPATH": os.path.join(ROOT, "recorder", "python"), "OMP_NUM_THREADS": "1"})
        self.assertEqual(result.returncode, 0, result.stderr[-3000:])
        _, results = self.judged("torchrun")
        self.assertEqual({each["result"] for each in results.values()}, {"pass", "skip"})
        self.assertEqual(results["run.is_recorded_whole"]["result"], "pass")

    def test_what_cannot_be_traced_is_refused(self):
        for arguments, sentence in ((["nowhere"], "nowhere: is no folder of recorded histories"),
                                    ([os.path.join(self.folder, "texts-1"), "--out", "/nowhere/t.json"],
                                     "/nowhere/t.json: cannot be written: No such file or directory")):
            result = subprocess.run([RecordedCase.lockstep, "trace", *arguments], capture_output=True, text=True, timeout=120, check=False)
            self.assertEqual((result.returncode, result.stdout), (2, ""))
            self.assertIn(sentence, result.stderr)

    def test_the_report_can_be_read_again(self):
        self.judged("set_epoch_forgotten-2")
        result = subprocess.run([RecordedCase.lockstep, "report", os.path.join(self.folder, "set_epoch_forgotten-2.json")],
                                capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("set_epoch was not called", result.stdout)


if __name__ == "__main__":
    main()
