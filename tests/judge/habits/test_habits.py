"""Programs around what a training keeps beside its parameters: right ones are clean, and each mistake is caught and named.

usage: test_habits.py LOCKSTEP
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from programs_case import Programs
from recorded_case import RecordedCase, main

CLEAN = ("head", "average", "teacher", "clipped_whole", "clipped_by_the_norm_of_all", "gan", "own_order", "own_order_sorted", "endless",
         "stream", "stream_remade", "own_order_beside_evaluations", "growing_order", "parts", "noise", "gathered_for_metrics")
# Program -> the invariant of which it is a remark, and the pattern.
CUSTOMS = {
    "gathered_with_padding": ("data.evaluates_each_sample_once", "evaluation_padded"),
    "same_noise": ("random.streams_differ", "same_random_stream"),
    "endless_whole_orders": ("data.is_partitioned", "overlapping_draws"),
}
# Program -> the invariant that finds its mistake, and the pattern that it names.
MISTAKES = {
    "head_loaded_on_rank_zero": ("parameters.are_the_same", "changed_on_some_ranks"),
    "average_of_other_steps": ("parameters.are_the_same", "no_two_ranks_agree"),
    "teacher_of_rank_zero": ("parameters.are_the_same", "changed_on_some_ranks"),
    "clipped_by_part": ("gradients.are_the_same", "clipped_by_part"),
    "gan_with_a_leak": ("forward.runs_through_the_wrapper", "bare_forward"),
    "own_order_of_one_epoch": ("data.order_changes", "epoch_ignored"),
    "stream_of_one_epoch": ("data.order_changes", "epoch_ignored"),
    "stream_remade_of_one_epoch": ("data.order_changes", "epoch_ignored"),
    "own_order_of_one_epoch_beside_evaluations": ("data.order_changes", "epoch_ignored"),
    "growing_own_orders": ("data.is_partitioned", "overlapping_draws"),
    "endless_parts_of_own_orders": ("data.is_partitioned", "overlapping_draws"),
    "padded_by_hand": ("data.evaluates_each_sample_once", "evaluation_padded"),
    "replaced": ("run.is_recorded_whole", "threw"),
}
# Program that resumes another one -> its worlds, and the invariant and pattern of its mistake.
RESUMED = {
    "second_part": ((1, 2, 4), None),
    "without_optimizer": ((2, 4), ("optimizer.continues", "state_lost")),
    "without_moments_of_a_layer": ((2,), ("optimizer.continues", "state_lost")),
    "without_schedule": ((2,), ("optimizer.continues", "setting_lost")),
    "epochs_from_zero": ((2, 4), ("data.order_continues", "epoch_drawn_before")),
}


class Habits(Programs, RecordedCase):
    CLEAN, CUSTOMS, MISTAKES = CLEAN, CUSTOMS, MISTAKES
    FILE = "programs_of_habits.py"
    FURTHER = "first_part:2", *(f"{name}:{world}" for name, (worlds, _) in RESUMED.items() for world in worlds)

    def test_the_exception_after_a_layer_was_replaced_has_its_cause(self):
        _, results = self.judge("replaced-2", statuses=(1,))
        self.assertIn("cause: 4.bias, 4.weight are other tensors than those that DistributedDataParallel was made with",
                      results["run.is_recorded_whole"]["findings"][0]["text"])

    def test_what_resumes_a_run_continues_its_optimizers_and_epochs_in_any_world(self):
        for name, (worlds, found) in RESUMED.items():
            for world in worlds:
                with self.subTest(program=name, world=world):
                    result, results = self.judge("%s-%d" % (name, world), "--after", os.path.join(self.folder, "first_part-2"),
                                                 statuses=(0, 1, 3))
                    failed = {invariant: each["findings"][0]["pattern"] for invariant, each in results.items() if each["result"] == "fail"}
                    self.assertEqual(failed, dict([found] if found else []), result.stdout)
                    self.assertEqual(results["optimizer.continues"]["result"], failed and "optimizer.continues" in failed and "fail" or "pass")


if __name__ == "__main__":
    main()
