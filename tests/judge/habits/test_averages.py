"""Programs around what becomes of gradients before an update takes them: right ones are clean, and each mistake is caught and named.

usage: test_averages.py LOCKSTEP
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from programs_case import Programs
from recorded_case import RecordedCase, main

CLEAN = ("tokens_of_all", "mean_weighted_by_tokens", "tokens_but_in_the_last_batch", "clipped_unscaled", "unscaled_by_hand",
         "clipped_by_the_scale", "hook_that_averages", "hook_that_sums_a_divided_loss", "waited", "waited_by_futures", "averaged_by_hand",
         "summed_of_divided_losses", "accumulated_alike", "hook_that_divides_a_multiplied_loss", "tensor_hooks_that_average",
         "tensor_hooks_that_sum_divided_losses", "tensor_hooks_that_double", "averaged_over_accumulated", "clipped_behind_the_average", "averaged_again", "workers_by_rank", "seeded_in_vain",
         "cut_of_one_order", "drawn_at_random", "queue_of_all", "mixed")
# Program -> the invariant of which it is a remark, and the pattern.
CUSTOMS = {
    "mean_of_own_tokens": ("gradients.are_averages", "average_of_averages"),
    "sum_by_own_tokens": ("gradients.are_averages", "average_of_averages"),
    "mixed_by_rank": ("gradients.are_averages", "weighted_by_rank"),
    "clipped_before_the_average": ("gradients.are_averages", "clipped_before_averaging"),
    "workers_by_number": ("random.streams_differ", "workers_seeded_alike"),
    "cut_of_own_orders_once": ("data.is_partitioned", "shared_inputs"),
    "own_whole_orders": ("data.is_partitioned", "shared_inputs"),
    "queue_of_own": ("buffers.follow_rank_zero", "written_on_each_rank"),
}
# Program -> the invariant that finds its mistake, the pattern that it names, and what its story says.
MISTAKES = {
    "clipped_scaled": ("gradients.are_averages", "clipped_while_scaled", "no scaler.unscale_(optimizer) between the backward"),
    "hook_that_divides_twice": ("gradients.are_averages", "divided_twice", "divides both before the all-reduce and after it"),
    "tensor_hooks_that_sum": ("gradients.are_averages", "sum_not_average", "the gradients that an update took of optimizer 0 are the sum"),
    "tensor_hooks_that_sum_averages": ("gradients.are_averages", "sum_not_average", "in a hook of a parameter (register_hook) say"),
    "hook_that_sums": ("gradients.are_averages", "sum_not_average", "in a communication hook say"),
    "summed_by_hand": ("gradients.are_averages", "sum_not_average", "the gradients that an update took of optimizer 0 are the sum"),
    "summed_and_clipped": ("gradients.are_averages", "sum_not_average", "the gradients that an update took of optimizer 0 are the sum"),
    "summed_again": ("gradients.are_averages", "summed_again", "leave out the all-reduce of gradients behind it"),
    "not_waited": ("gradients.are_averages", "not_waited", "took 6 gradients whose all-reduce the program had begun"),
    "cut_of_own_orders": ("data.is_partitioned", "shared_inputs", "draw the order with one seed on all ranks"),
    "group_of_one": ("forward.runs_through_the_wrapper", "group_of_one", "wrapped model 0 for a process group of itself alone"),
}


class Averages(Programs, RecordedCase):
    CLEAN, CUSTOMS, MISTAKES = CLEAN, CUSTOMS, MISTAKES
    FILE = "programs_of_averages.py"


if __name__ == "__main__":
    main()
