"""Programs without a wrapper that update, or average, by hand: right ones are clean, and each mistake is caught and named.

usage: test_hand.py LOCKSTEP
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from programs_case import Programs
from recorded_case import RecordedCase, main

CLEAN = ("fooled_by_hand", "shifted_windows", "drops_by_hand", "teacher_of_all", "head_by_hand", "wrapped_body", "tasks", "tasks_of_one_copy", "teacher_in_the_graph")
# Program -> the invariant of which it is a remark, and the pattern.
CUSTOMS = {
    "subtracts": ("run.is_recorded_whole", "updates_by_itself"),
    "subtracts_in_data": ("run.is_recorded_whole", "updates_by_itself"),
    "updated_outside": ("parameters.are_the_same", "averaged_between_updates"),
    "two_by_hand": ("run.is_recorded_whole", "updates_by_itself"),
    "tasks_with_optimizers": ("parameters.are_the_same", "averaged_between_updates"),
    "at_the_end_in_a_function": ("parameters.are_the_same", "averaged_between_updates"),
    "at_the_end": ("parameters.are_the_same", "averaged_between_updates"),
    "rounds_by_hand": ("parameters.are_the_same", "averaged_between_updates"),
    "kept_by_rank_zero": ("parameters.are_the_same", "averaged_between_updates"),
    "vector_at_the_end": ("parameters.are_the_same", "averaged_between_updates"),
    "now_and_then": ("parameters.are_the_same", "averaged_between_updates"),
    "drops_alike_by_hand": ("random.streams_differ", "same_random_stream"),
    "teacher_of_rank_zero_alone": ("parameters.are_the_same", "changed_on_some_ranks_alone"),
}
# Program -> the invariant that finds its mistake, the pattern that it names, and what its story says.
MISTAKES = {
    "subtracts_own_gradients": ("parameters.are_the_same", "no_two_ranks_agree", "parameters of no optimizer: 6 of 6 tensors differ"),
    "subtracts_from_own_weights": ("parameters.are_the_same", "no_two_ranks_agree"),
    "subtracts_nothing": ("run.is_recorded_whole", "vacuous"),
    "subtracts_own_last_gradients": ("parameters.are_the_same", "no_two_ranks_agree"),
    "head_by_hand_alone": ("parameters.are_the_same", "no_two_ranks_agree", "parameters of no optimizer: 2 of 2 tensors differ"),
    "wrapped_body_and_head_alone": ("parameters.are_the_same", "no_two_ranks_agree", "average their gradients, or wrap the module that has them"),
    "tasks_alone": ("forward.runs_through_the_wrapper", "nobody_averaged"),
    "own_teacher_in_the_graph": ("parameters.are_the_same", "no_two_ranks_agree"),
    "second_alone": ("parameters.are_the_same", "no_two_ranks_agree"),
    "sum_at_the_end_in_a_function": ("parameters.are_the_same", "sum_not_average", "are 2 times what the ranks had"),
    "parts_at_the_end_in_a_function": ("parameters.are_the_same", "no_two_ranks_agree"),
    "summed_later": ("parameters.are_the_same", "sum_not_average", "in 4 of 5 times"),
    "sum_at_the_end": ("parameters.are_the_same", "sum_not_average", "are 2 times what the ranks had"),
    "parts_at_the_end": ("parameters.are_the_same", "no_two_ranks_agree"),
    "unlike_at_the_end": ("parameters.are_the_same", "no_two_ranks_agree"),
    "summed": ("parameters.are_the_same", "sum_not_average", "are 2 times what the ranks had"),
    "divided_twice": ("parameters.are_the_same", "divided_twice", "are 1/2 of what the ranks had"),
}


class Hand(Programs, RecordedCase):
    CLEAN, CUSTOMS, MISTAKES = CLEAN, CUSTOMS, MISTAKES
    FILE = "programs_of_hand.py"
    FURTHER = "plain_tensors:2", "pairs:4", "pairs_alone:4", "pairs_in_part:4", "in_turns:4", "lazy_rank:4", "pairs_that_part:4", "steps_in_turns:4", "branches_by_hand:2"

    def test_tensors_that_are_no_parameters_are_not_known(self):
        result, _ = self.judge("plain_tensors-2", statuses=(3,))
        self.assertIn("make them nn.Parameter", result.stdout)

    def test_parameters_that_ranks_reach_in_other_orders_are_not_known(self):
        result, _ = self.judge("branches_by_hand-2", statuses=(3,))
        self.assertIn("the ranks' backwards reach them in other orders", result.stdout)

    def test_clients_that_take_part_in_turns_are_not_judged(self):
        result, _ = self.judge("in_turns-4", statuses=(77,))
        self.assertIn("clients of federated averaging that take part in turns", result.stdout)
        self.judge("lazy_rank-4", statuses=(1,))
        self.judge("steps_in_turns-4", statuses=(1,))

    def test_averages_within_groups_lead_to_averages_of_all(self):
        _, results = self.judge("pairs-4", statuses=(0,))
        self.assertEqual(results["parameters.are_the_same"]["remarks"][0]["pattern"], "averaged_between_updates")
        result, _ = self.judge("pairs_alone-4", statuses=(77,))
        self.assertIn("as elastic averaging and gossip do", result.stdout)
        _, results = self.judge("pairs_in_part-4", statuses=(1,))
        self.assertEqual(results["parameters.are_the_same"]["findings"][0]["pattern"], "ranks_in_groups")
        self.judge("pairs_that_part-4", statuses=(1,))


if __name__ == "__main__":
    main()
