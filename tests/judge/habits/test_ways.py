"""Programs that average, evaluate or keep buffers in ways of their own: right ones are clean, each mistake is caught and named, and what is
no data-parallel training is not judged.

usage: test_ways.py LOCKSTEP
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from programs_case import Programs
from recorded_case import RecordedCase, main

CLEAN = ("mean_of_gathered", "cut_by_rank", "averaged_each_time", "averaged_statistics", "shared_centre", "reduced", "shared_best", "first_of_each_order", "smooth", "labels_with_offset", "one_rate", "subsets_reduced")
# Program -> the invariant of which it is a remark, and the pattern.
CUSTOMS = {
    "own_codes": ("parameters.are_the_same", "made_on_each_rank"),
    "head_at_the_end": ("parameters.are_the_same", "averaged_between_updates"),
    "own_statistics": ("buffers.follow_rank_zero", "own_buffers"),
    "own_centre": ("buffers.follow_rank_zero", "own_buffers"),
    "reduced_by_none": ("data.evaluates_each_sample_once", "evaluation_not_reduced"),
    "subsets_reduced_by_none": ("data.evaluates_each_sample_once", "evaluation_not_reduced"),
    "rank_0_alone": ("data.evaluates_each_sample_once", "evaluation_not_reduced"),
    "drops_the_last": ("data.evaluates_each_sample_once", "evaluation_left_out"),
    "smooth_on_one": ("gradients.are_averages", "other_losses"),
    "sum_on_one": ("gradients.are_averages", "other_losses"),
    "labels_of_rank_0": ("gradients.are_averages", "labels_without_offset"),
}
# Program -> the invariant that finds its mistake, the pattern that it names, and what its story says.
MISTAKES = {
    "codes_from_zero": ("parameters.are_the_same", "no_two_ranks_agree"),
    "head_alone": ("parameters.are_the_same", "no_two_ranks_agree"),
    "own_rate": ("parameters.are_the_same", "no_two_ranks_agree"),
    "first_of_gathered": ("gradients.are_averages", "one_ranks_gradient", "are those of rank 0 on all ranks"),
    "cut_alike": ("gradients.are_averages", "same_data", "all train on one batch"),
    "summed_each_time": ("gradients.are_averages", "sum_not_average"),
    "largest": ("gradients.are_averages", "another_reduction", "ReduceOp.MAX"),
    "median_of_gathered": ("gradients.are_averages", "another_reduction"),
    "first_of_one_order": ("data.order_changes", "epoch_ignored", "takes the same samples in the same order as the two passes before it"),
    "own_best": ("parameters.are_the_same", "changed_on_some_ranks", "with which ranks evaluate"),
}
# Program -> the exit code, and what is said.
OTHERS = {
    "divided_by_hand": (77, "as in tensor parallelism"),
    "elastic": (77, "as elastic averaging and gossip do"),
    "evolution": (3, "no rank recorded an update"),
}


class Ways(Programs, RecordedCase):
    CLEAN, CUSTOMS, MISTAKES = CLEAN, CUSTOMS, MISTAKES
    FILE = "programs_of_ways.py"
    FURTHER = tuple(name + ":2" for name in OTHERS) + ("median_of_gathered:3",)

    def test_what_is_no_data_parallel_training_is_not_judged(self):
        for name, (status, says) in OTHERS.items():
            with self.subTest(program=name):
                result, _ = self.judge(name + "-2", statuses=(status,))
                self.assertIn(says, result.stdout)

    def test_a_median_of_three_is_named(self):
        result, results = self.judge("median_of_gathered-3", statuses=(1,))
        self.assertIn("are the median of those that the ranks computed", results["gradients.are_averages"]["findings"][0]["text"])


if __name__ == "__main__":
    main()
