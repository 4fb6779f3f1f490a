"""Programs whose ranks send each other what they train, or are uneven: right ones are clean, and each mistake is caught and named.

usage: test_exchanges.py LOCKSTEP
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from programs_case import Programs
from recorded_case import RecordedCase, main

CLEAN = ("shuffled_buckets", "joined_divided", "owned_states", "subsets_of_one_order", "target")
# Program -> the invariant of which it is a remark, and the pattern.
CUSTOMS = {
    "watched_parts": ("parameters.are_the_same", "equal_before_the_forward"),
    "watched_parts_at_a_bound": ("parameters.are_the_same", "equal_before_the_forward"),
    "wrapped_parts": ("parameters.are_the_same", "equal_before_the_forward"),
    "sliced_states": ("optimizer.has_one_state", "state_of_own_part"),
    "slices_in_one_sum": ("optimizer.has_one_state", "state_of_own_part"),
    "target_of_other_steps": ("parameters.are_the_same", "loaded_at_other_steps"),
}
# Program -> the invariant that finds its mistake, the pattern that it names, and what its story says.
MISTAKES = {
    "best_of_alike": ("forward.runs_through_the_wrapper", "nobody_averaged"),
    "first_of_a_population": ("forward.runs_through_the_wrapper", "nobody_averaged"),
    "parts_by_another": ("parameters.are_the_same", "other_shape", "rank 1 updates 19 elements and is the source of 11"),
    "watched_parts_by_another": ("parameters.are_the_same", "update_lost", "some ranks update 0.bias of model 0"),
    "wrapped_parts_by_another": ("parameters.are_the_same", "update_lost", "some ranks update 0.bias of model 0"),
    "parts_of_own_gradients": ("forward.runs_through_the_wrapper", "nobody_averaged"),
    "watched_parts_of_own_gradients": ("forward.runs_through_the_wrapper", "nobody_averaged"),
    "turns": ("forward.runs_through_the_wrapper", "nobody_averaged"),
    "all_send": ("forward.runs_through_the_wrapper", "nobody_averaged"),
    "slices_that_are_kept": ("parameters.are_the_same", "no_two_ranks_agree"),
    "owned_states_of_rank_0": ("optimizer.has_one_state", "other_shape"),
    "sliced_and_thrown": ("run.is_recorded_whole", "threw", "before it averaged"),
    "gradients_of_rank_0": ("gradients.are_averages", "one_ranks_gradient", "are those of rank 0 on all ranks"),
    "buckets_of_rank_0": ("data.is_partitioned", "same_batches"),
    "buckets_of_own_orders": ("data.is_partitioned", "overlapping_draws", "its batch sampler does not know the ranks"),
    "subsets_of_own_orders": ("data.is_partitioned", "overlapping_draws", "its SubsetRandomSampler does not know the ranks"),
}
# Program -> what is said of it.
NOT_JUDGED = {
    "population": "as in population-based training",
    "population_by_file": "as in population-based training",
    "parts": "as with ZeRO by hand",
    "alike_parts": "as with ZeRO by hand",
}


class Exchanges(Programs, RecordedCase):
    CLEAN, CUSTOMS, MISTAKES = CLEAN, CUSTOMS, MISTAKES
    FILE = "programs_of_exchanges.py"
    FURTHER = tuple(name + ":2" for name in NOT_JUDGED)

    def test_what_is_no_data_parallel_training_is_not_judged(self):
        for name, says in NOT_JUDGED.items():
            with self.subTest(program=name):
                result, results = self.judge(name + "-2", statuses=(77,))
                self.assertIn(says, result.stdout)
                self.assertEqual([each for each, is_ in results.items() if is_["result"] == "fail"], [], result.stdout)

    def test_a_rank_that_threw_in_its_first_step_may_have_averaged_there(self):
        self.assertNotIn("nothing else averaged", self.judge("sliced_and_thrown-2", statuses=(1,))[0].stdout)


if __name__ == "__main__":
    main()
