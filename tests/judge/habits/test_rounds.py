"""Programs that update by hand what no optimizer has, and end rounds: right ones are clean, and each mistake is caught and named.

usage: test_rounds.py LOCKSTEP
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from programs_case import Programs
from recorded_case import RecordedCase, main

CLEAN = ("perturbed", "perturbed_twice", "perturbed_in_part", "moves_to_averages",
         "offset_of_all", "late_head", "averaged_to_the_end", "tasks_by_hand", "rows_of_all", "noisy_head")
# Program -> the invariant of which it is a remark, and the pattern.
CUSTOMS = {
    "served": ("run.is_recorded_whole", "updates_by_itself"),
    "moved_twice_as_far_from_zero": ("parameters.are_the_same", "averaged_between_updates"),
    "delta": ("run.is_recorded_whole", "updates_by_itself"),
    "delta_computed": ("run.is_recorded_whole", "updates_by_itself"),
    "delta_only": ("run.is_recorded_whole", "updates_by_itself"),
    "positions": ("run.is_recorded_whole", "updates_by_itself"),
    "patch": ("run.is_recorded_whole", "updates_by_itself"),
    "freed": ("parameters.are_the_same", "averaged_between_updates"),
    "all_update": ("run.is_recorded_whole", "updates_by_itself"),
    "optimizer_for_its_rate": ("run.is_recorded_whole", "updates_by_itself"),
    "average_of_each_round": ("parameters.are_the_same", "averaged_between_updates"),
    "average_by_hand_at_the_end": ("parameters.are_the_same", "averaged_between_updates"),
}
# Program -> the invariant that finds its mistake, the pattern that it names, and what its story says.
MISTAKES = {
    "delta_alone": ("parameters.are_the_same", "no_two_ranks_agree", "parameters of no optimizer"),
    "delta_computed_alone": ("parameters.are_the_same", "no_two_ranks_agree", "parameters of no optimizer"),
    "delta_only_alone": ("parameters.are_the_same", "no_two_ranks_agree", "parameters of no optimizer"),
    "positions_alone": ("parameters.are_the_same", "no_two_ranks_agree", "parameters of no optimizer"),
    "patch_alone": ("parameters.are_the_same", "no_two_ranks_agree", "parameters of no optimizer"),
    "moves_alone": ("forward.runs_through_the_wrapper", "nobody_averaged"),
    "freed_sum": ("parameters.are_the_same", "sum_not_average"),
    "offset_of_each": ("parameters.are_the_same", "no_two_ranks_agree", "average their gradients, or wrap the module that has them"),
    "late_head_alone": ("parameters.are_the_same", "no_two_ranks_agree", "average their gradients, or wrap the module that has them"),
    "last_update_alone": ("parameters.are_the_same", "last_update_alone", "differ behind it"),
    "optimizer_for_its_rate_alone": ("parameters.are_the_same", "no_two_ranks_agree", "parameters of no optimizer"),
    "one_leaves_out": ("parameters.are_the_same", "updated_on_some_ranks", "rank 1 has 4 changes"),
    "one_never_updates": ("parameters.are_the_same", "updated_on_some_ranks", "rank 1 has 0 changes"),
    "noisy_head_alone": ("parameters.are_the_same", "no_two_ranks_agree", "average their gradients, or wrap the module that has them"),
    "rows_of_each": ("parameters.are_the_same", "no_two_ranks_agree", "average their gradients, or wrap the module that has them"),
    "branches_of_own_gradients": ("parameters.are_the_same", "no_two_ranks_agree", "parameters of no optimizer"),
    "sum_of_one_round": ("parameters.are_the_same", "sum_not_average", "times what the ranks had, in 1 of"),
    "sum_by_hand_at_the_end": ("parameters.are_the_same", "sum_not_average", "are 2 times what the ranks had"),
}


class Rounds(Programs, RecordedCase):
    CLEAN, CUSTOMS, MISTAKES = CLEAN, CUSTOMS, MISTAKES
    FILE = "programs_of_rounds.py"
    FURTHER = ("branches:2",)

    def test_branches_that_ranks_reach_at_other_times_are_not_known(self):
        result, _ = self.judge("branches-2", statuses=(3,))
        self.assertIn("the ranks' backwards reach them in other orders", result.stdout)


if __name__ == "__main__":
    main()
