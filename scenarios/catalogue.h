// Every scenario there is, in teaching order. The list is explicit: a file that registered itself
// from a static library would vanish without a word.
#pragma once

#include "harness/core/scenario.h"

namespace lockstep {

std::vector<Scenario> catalogue();

namespace scenarios {

Scenario sampler_partitions_the_dataset();
Scenario gradients_match_single_process();
Scenario gradients_average_over_the_group();
Scenario gradients_undefined_counts_as_zero();
Scenario unused_are_averaged_over_all_ranks();
Scenario replicas_start_equal();
Scenario replicas_stay_equal();
Scenario replicas_conversion_is_noticed();
Scenario replicas_different_models_are_refused();
Scenario buffers_follow_rank_zero();
Scenario buffers_lag_behind_local_forwards();
Scenario buffers_every_kind_is_followed();
Scenario accumulation_no_sync_accumulates();
Scenario accumulation_is_decided_at_forward();
Scenario accumulation_graphs_decide();
Scenario sync_batch_norm_matches_single_process();
Scenario sync_batch_norm_split_does_not_matter();
Scenario sync_batch_norm_one_value_is_refused();
Scenario sync_batch_norm_evaluation_is_local();
Scenario sync_batch_norm_keeps_buffers_equal_under_ddp();
Scenario sync_batch_norm_gradients_want_weights();
Scenario join_uneven_inputs_are_told();
Scenario join_matches_single_process();
Scenario failures_survivors_are_told();
Scenario failures_exception_in_backward_is_told();
Scenario canary_every_rank_is_rank_zero();

}  // namespace scenarios
}  // namespace lockstep
