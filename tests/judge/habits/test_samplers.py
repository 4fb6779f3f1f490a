"""Programs with samplers of their own, as published training loops have them: right ones are clean, and each mistake is caught and named.

usage: test_samplers.py LOCKSTEP
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from programs_case import Programs
from recorded_case import RecordedCase, main

CLEAN = ("enlarged", "enlarged_small", "enlarged_padded", "grouped", "grouped_by_batches", "mosaics", "sized_mosaics", "cleared_in_two_ways", "evaluated", "repeated",
         "looped", "counted")
# Program -> the invariant of which it is a remark, and the pattern.
CUSTOMS = {
    "evaluated_in_parts": ("data.evaluates_each_sample_once", "evaluation_not_reduced"),
    "classes": ("parameters.are_the_same", "own_tensors"),
    "classes_from_one_seed": ("parameters.are_the_same", "own_tensors"),
}
# Program -> the invariant that finds its mistake, the pattern that it names, and what its story says.
MISTAKES = {
    "enlarged_of_rank_0": ("data.is_partitioned", "same_batches", "drew the same samples in the same order in 3 of 3 batches"),
    "enlarged_of_own_orders": ("data.is_partitioned", "overlapping_draws", "its Enlarged splits an order of each rank's own"),
    "enlarged_of_one_epoch": ("data.order_changes", "epoch_ignored", "the epoch of its sampler is 0 in both"),
    "looped_of_own_orders": ("data.is_partitioned", "not_a_partition"),
    "mosaics_of_rank_0": ("data.is_partitioned", "same_batches", "drew the same samples in the same order in 16 of 16 batches"),
    "sized_mosaics_of_rank_0": ("data.is_partitioned", "same_batches", "drew the same samples in the same order in 16 of 16 batches"),
    "classes_behind_projections": ("parameters.are_the_same", "no_two_ranks_agree"),
    "classes_of_a_rank": ("parameters.are_the_same", "no_two_ranks_agree"),
    "classes_of_a_rank_logged": ("parameters.are_the_same", "no_two_ranks_agree"),
    "cleared_on_rank_0": ("gradients.are_the_same", "cleared_on_some_ranks", "rank 0 has cleared them, rank 1 has kept them"),
}


class Samplers(Programs, RecordedCase):
    CLEAN, CUSTOMS, MISTAKES = CLEAN, CUSTOMS, MISTAKES
    FILE = "programs_of_samplers.py"

    def test_a_clip_of_the_wrapped_model_is_none_of_parts_that_nothing_averages(self):
        _, results = self.judge("classes-2", statuses=(0,))
        self.assertNotIn("remarks", results["gradients.are_averages"])


if __name__ == "__main__":
    main()
