"""Programs around modes of layers, random numbers, and models that nothing trains: right ones are clean, and each mistake is
caught and named.

usage: test_states.py LOCKSTEP
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from programs_case import Programs
from recorded_case import RecordedCase, main

CLEAN = ("frozen_norm", "kept", "averaged", "loaded", "drops", "augmented", "not_augmented", "windows",
         "order_of_numpy", "contrast", "taught_alike", "trained_later", "statistics_sent", "statistics_of_all")
# Program -> the invariant of which it is a remark, and the pattern.
CUSTOMS = {
    "augmented_alike": ("random.streams_differ", "workers_seeded_alike"),
    "augmented_by_one_seed": ("random.streams_differ", "same_random_stream"),
    "averaged_from_own_weights": ("parameters.are_the_same", "began_unlike"),
    "averaged_on_rank_zero": ("parameters.are_the_same", "changed_on_some_ranks_alone"),
    "taught_by_own": ("parameters.are_the_same", "made_on_each_rank"),
    "statistics_of_own": ("buffers.follow_rank_zero", "statistics_of_own_part"),
    "contrast_without_gradient": ("collectives.have_one_order", "gathered_without_gradient"),
    "gate": ("parameters.are_the_same", "own_tensors"),
    "probe_of_rank_zero": ("parameters.are_the_same", "own_training"),
}
# Program -> the invariant that finds its mistake, the pattern that it names, and what its story says.
MISTAKES = {
    "norm_frozen_on_a_rank": ("forward.runs_through_the_wrapper", "other_mode", "rank 1 has training mode with 1 in evaluation mode"),
    "other_layers": ("forward.runs_through_the_wrapper", "other_layers", "of type BatchNorm1d: rank 0 has 1, rank 1 has none"),
    "averaged_less_often": ("parameters.are_the_same", "no_two_ranks_agree", "a teacher or an average of weights say"),
    "loaded_by_rank": ("parameters.are_the_same", "no_two_ranks_agree", "a teacher or an average of weights say"),
    "taught_by_rank_zero": ("parameters.are_the_same", "no_two_ranks_agree", "a teacher or an average of weights say"),
    "kept_from_own_weights": ("parameters.are_the_same", "no_two_ranks_agree", "a teacher or an average of weights say"),
    "other_groups": ("optimizer.has_one_setting", "other_groups", "each group of optimizer 0 has: rank 0 has [2,4], rank 1 has [3,3]"),
    "clipped_by_rank": ("parameters.are_the_same", "no_two_ranks_agree", "the ranks had the same gradients after the backward, and others"),
    "gradients_without_backward": ("parameters.are_the_same", "no_two_ranks_agree", "or torch.autograd.grad"),
    "windows_of_a_rank": ("gradients.are_the_same", "synchronised_on_some_ranks", "rank 0 has synchronised, rank 1 has no_sync"),
    "seeded_in_the_loop": ("random.streams_differ", "restarted_stream", "a seed that is set within the loop"),
    "head_of_rank_zero": ("forward.runs_through_the_wrapper", "nobody_averaged", "optimizer 1 updates"),
    "updated_on_rank_zero": ("run.has_one_length", "skipped_update", "in step 0 rank 0 made an update by optimizer 0"),
    "gate_of_a_rank": ("parameters.are_the_same", "no_two_ranks_agree", "parameters of optimizer 0: 2 of 2 tensors differ"),
}


class States(Programs, RecordedCase):
    CLEAN, CUSTOMS, MISTAKES = CLEAN, CUSTOMS, MISTAKES
    FILE = "programs_of_states.py"
    FURTHER = "average_before:2", "average_after:2", "average_begun_anew:2"

    def test_an_average_of_weights_is_continued(self):
        for name, expected in (("average_after", []), ("average_begun_anew", ["average_lost"])):
            with self.subTest(program=name):
                result, results = self.judge(name + "-2", "--after", os.path.join(self.folder, "average_before-2"), statuses=(0, 1))
                self.assertEqual([each["pattern"] for each in results["optimizer.continues"].get("findings", [])], expected, result.stdout)


if __name__ == "__main__":
    main()
