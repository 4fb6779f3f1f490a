"""Programs whose models take turns, or whose forwards get other things than a batch: right ones are clean, each mistake is caught and named.

usage: test_turns.py LOCKSTEP
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from programs_case import Programs
from recorded_case import RecordedCase, main

CLEAN = ("turns", "turns_by_hand", "numpy_rate", "micro_batches", "dealt", "endless", "rest_of_all", "one_loss", "gathered",
         "bare_averaged", "bare_before_the_wrapper")
# Program -> the invariant of which it is a remark, and the pattern.
CUSTOMS = {
    "endless_statistics": ("buffers.follow_rank_zero", "own_buffers"),
    "perturbed": ("parameters.are_the_same", "trained_anew"),
    "heads_anew": ("parameters.are_the_same", "trained_anew"),
    "shares_cropped": ("data.is_partitioned", "divides_batches"),
}
# Program -> the invariant that finds its mistake, the pattern that it names, and what its story says.
MISTAKES = {
    "turns_kept_in_no_sync": ("forward.runs_through_the_wrapper", "update_not_averaged", "of model 1"),
    "turns_by_hand_unsent": ("forward.runs_through_the_wrapper", "nobody_averaged", "each rank trains optimizer 1's parameters alone"),
    "turns_on_one_batch": ("data.is_partitioned", "same_batches", "drew the same samples"),
    "numpy_rate_of_a_rank": ("optimizer.has_one_setting", "no_two_ranks_agree", "lr of group 0"),
    "micro_batches_of_own_orders": ("data.is_partitioned", "every_rank_draws_all"),
    "micro_batches_of_own_orders_beside_evaluations": ("data.is_partitioned", "every_rank_draws_all"),
    "whole_beside_a_number": ("data.is_partitioned", "same_batches"),
    "penalised_alike": ("data.is_partitioned", "same_losses"),
    "gathered_and_summed": ("gradients.are_averages", "sum_not_average"),
    "dealt_of_own_orders": ("data.is_partitioned", "overlapping_draws"),
    "one_loss_of_a_bare_forward": ("forward.runs_through_the_wrapper", "bare_forward", "through no forward of its wrapper"),
    "bare_behind_the_wrapper": ("forward.runs_through_the_wrapper", "backward_again"),
    "bare_averaged_in_part": ("forward.runs_through_the_wrapper", "bare_forward"),
    "bare_averaged_now_and_then": ("forward.runs_through_the_wrapper", "bare_forward"),
    "heads_kept": ("forward.runs_through_the_wrapper", "nobody_averaged", "optimizer 0 updates 12 elements"),
    "heads_clamped": ("forward.runs_through_the_wrapper", "nobody_averaged", "optimizer 0 updates 12 elements"),
    "heads_of_rank_0": ("forward.runs_through_the_wrapper", "nobody_averaged", "optimizer 0 updates 12 elements"),
    "bare_summed": ("gradients.are_averages", "sum_not_average"),
}


class Turns(Programs, RecordedCase):
    CLEAN, CUSTOMS, MISTAKES = CLEAN, CUSTOMS, MISTAKES
    FILE = "programs_of_turns.py"


if __name__ == "__main__":
    main()
