"""Programs that divide gradients, or losses, and schedulers that look at a loss: right ones are clean, and each mistake is caught and named.

usage: test_divisors.py LOCKSTEP
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from programs_case import Programs
from recorded_case import RecordedCase, main

CLEAN = ("divided_accumulated", "divided_multiplied", "labels_of_all_multiplied_behind", "labels_of_all_in_a_hook_that_sums", "divided_by_ranks",
         "plateau_of_all", "numpy_plateau_of_all", "halves", "summed_over_batches", "scaled_on_purpose",
         "batches_of_all_added_up", "batches_of_own", "callbacks_that_average", "nodes_that_average",
         "step_hook", "step_hook_behind_a_hook_divides", "own_step", "sums", "accumulated_divided_and_summed", "losses_divided_and_summed")
# Program -> the invariant of which it is a remark, and the pattern.
CUSTOMS = {"numpy_plateau_of_own": ("optimizer.has_one_setting", "own_metric"),
           "plateau_of_own": ("optimizer.has_one_setting", "own_metric"),
           "weights_divided": ("gradients.are_averages", "sum_not_average")}
# Program -> the invariant that finds its mistake, the pattern that it names, and what its story says.
MISTAKES = {
    "divided_again": ("gradients.are_averages", "divided_twice", "a division by hand behind the backward"),
    "labels_of_all": ("gradients.are_averages", "divided_twice", "is not multiplied by the number of ranks"),
    "batches_of_all": ("gradients.are_averages", "divided_twice", "is not multiplied by the number of ranks"),
    "divided_by_three": ("gradients.are_averages", "another_divisor", "divided by 3, and there are 2 ranks"),
    "own_step_of_a_part": ("gradients.are_averages", "divided_twice", "is not multiplied by the number of ranks"),
    "own_step_once": ("gradients.are_averages", "divided_twice", "is not multiplied by the number of ranks"),
    "own_step_nine_times": ("gradients.are_averages", "divided_twice", "is not multiplied by the number of ranks"),
    "step_hook_once": ("gradients.are_averages", "divided_twice", "is not multiplied by the number of ranks"),
    "step_hook_behind": ("gradients.are_averages", "divided_twice", "is not multiplied by the number of ranks"),
    "step_hook_that_divides": ("gradients.are_averages", "divided_twice", "a division by hand behind the backward"),
    "hook_divides_and_again_summed": ("gradients.are_averages", "summed_again"),
    "sums_beside_an_average": ("gradients.are_averages", "divided_twice", "is not multiplied by the number of ranks"),
    "accumulated_and_summed": ("gradients.are_averages", "sum_not_average", "the gradients that an update took of optimizer 0 are the sum"),
    "callbacks_that_sum": ("gradients.are_averages", "sum_not_average"),
    "callbacks_on_one_batch": ("gradients.are_averages", "same_data"),
    "auxiliary_of_half_summed": ("gradients.are_averages", "sum_not_average"),
    "auxiliary_summed": ("gradients.are_averages", "sum_not_average", "are the sum of those that the ranks computed"),
}


class Divisors(Programs, RecordedCase):
    CLEAN, CUSTOMS, MISTAKES = CLEAN, CUSTOMS, MISTAKES
    FILE = "programs_of_divisors.py"


if __name__ == "__main__":
    main()
