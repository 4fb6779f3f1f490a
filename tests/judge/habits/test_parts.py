"""Programs around what each rank takes of a batch, and how it is set up: right ones are clean, and each mistake is caught and named.

usage: test_parts.py LOCKSTEP
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from programs_case import Programs
from recorded_case import RecordedCase, main

CLEAN = ("ignored_alike", "strides", "parts_of_texts", "texts", "averaged_in_data", "rates_alike", "classes_alike", "even_parts", "masked_by_infinity", "updated_in_hooks", "ended_by_a_hook", "pruned_alike")
# Program -> the invariant of which it is a remark, and the pattern.
CUSTOMS = {
    "sliced": ("data.is_partitioned", "divides_batches"),
    "scattered": ("data.is_partitioned", "divides_batches"),
    "classes_of_own": ("gradients.are_averages", "classes_weighed_unlike"),
    "pruned_by_a_rank": ("buffers.follow_rank_zero", "own_buffers"),
    "rounds_averaged": ("parameters.are_the_same", "averaged_between_updates"),
    "unlike_rounds": ("run.has_one_length", "unlike_rounds"),
    "averaged_by_pairs": ("parameters.are_the_same", "averaged_between_updates"),
}
# Program -> the invariant that finds its mistake, the pattern that it names, and what its story says.
MISTAKES = {
    "sliced_alike": ("data.is_partitioned", "same_batches"),
    "crops_of_the_same": ("data.is_partitioned", "same_batches"),
    "crops_beside_the_whole": ("data.is_partitioned", "same_batches"),
    "handed_whole": ("data.is_partitioned", "same_batches"),
    "rate_of_a_rank": ("forward.runs_through_the_wrapper", "other_layers", "of type Dropout(p=0.1, inplace=False): rank 0 has 1, rank 1 has none"),
    "uneven_parts": ("run.has_one_length", "stopped_early"),
    "teacher_of_a_rank_in_data": ("parameters.are_the_same", "no_two_ranks_agree", "a teacher or an average of weights say"),
    "frozen_of_a_rank_in_data": ("parameters.are_the_same", "no_two_ranks_agree"),
    "updated_in_hooks_by_sums": ("gradients.are_averages", "sum_not_average", "in a hook of a parameter (register_hook) say"),
    "rounds_averaged_in_part": ("parameters.are_the_same", "no_two_ranks_agree"),
    "unlike_rounds_begun_unlike": ("parameters.are_the_same", "no_two_ranks_agree"),
    "unlike_rounds_kept": ("run.has_one_length", "stopped_early"),
    "unlike_rounds_kept_by_a_rank": ("parameters.are_the_same", "changed_on_some_ranks"),
    "unlike_rounds_divided_unlike": ("run.has_one_length", "stopped_early"),
    "unlike_rounds_stepped_twice": ("run.has_one_length", "stopped_early"),
    "ignored_of_own": ("parameters.are_the_same", "no_two_ranks_agree", "the program told DistributedDataParallel to ignore 0.bias, 0.weight"),
    "strides_of_own_orders": ("data.is_partitioned", "shared_inputs"),
    "parts_of_own_texts": ("data.is_partitioned", "shared_samples"),
    "own_texts": ("data.is_one_dataset", "other_content"),
    "sent_in_vain": ("forward.runs_through_the_wrapper", "nobody_averaged"),
}


class Parts(Programs, RecordedCase):
    CLEAN, CUSTOMS, MISTAKES = CLEAN, CUSTOMS, MISTAKES
    FILE = "programs_of_parts.py"
    FURTHER = ("learns_alone:2",)

    def test_a_rank_that_learns_for_all_is_not_called_wrong(self):
        _, results = self.judge("learns_alone-2", statuses=(3, 77))
        self.assertEqual([name for name, each in results.items() if each["result"] == "fail"], [])

    def test_a_hook_that_raised_leaves_no_sample_for_the_next_backward(self):
        for rank in (0, 1):
            with open(os.path.join(self.folder, "ended_by_a_hook-2", "rank%d.history" % rank), "rb") as file:
                self.assertNotIn(b'"hooked":true', file.read())

    def test_batches_that_the_program_divides_are_one_remark(self):
        for name in ("sliced", "scattered"):
            _, results = self.judge(name + "-2", statuses=(0,))
            self.assertEqual([remark["pattern"] for each in results.values() for remark in each.get("remarks", [])], ["divides_batches"])

    def test_ranks_with_unlike_numbers_of_batches_are_the_cause(self):
        result, _ = self.judge("uneven_parts-2", statuses=(1,))
        self.assertIn("cause: ranks get unlike numbers of batches in pass 0 of loader 0: rank 0 has 8 batches, rank 1 has 9 batches so far; "
                      "its length: rank 0 has 32, rank 1 has 40", result.stdout)


if __name__ == "__main__":
    main()
