#include "scenarios/catalogue.h"

namespace lockstep {

std::vector<Scenario> catalogue() {
  return {
      scenarios::sampler_partitions_the_dataset(),
      scenarios::replicas_start_equal(),
      scenarios::gradients_match_single_process(),
      scenarios::gradients_average_over_the_group(),
      scenarios::gradients_undefined_counts_as_zero(),
      scenarios::unused_are_averaged_over_all_ranks(),
      scenarios::accumulation_no_sync_accumulates(),
      scenarios::accumulation_is_decided_at_forward(),
      scenarios::accumulation_graphs_decide(),
      scenarios::replicas_stay_equal(),
      scenarios::replicas_different_models_are_refused(),
      scenarios::replicas_conversion_is_noticed(),
      scenarios::buffers_follow_rank_zero(),
      scenarios::buffers_lag_behind_local_forwards(),
      scenarios::buffers_every_kind_is_followed(),
      scenarios::sync_batch_norm_matches_single_process(),
      scenarios::sync_batch_norm_split_does_not_matter(),
      scenarios::sync_batch_norm_one_value_is_refused(),
      scenarios::sync_batch_norm_evaluation_is_local(),
      scenarios::sync_batch_norm_keeps_buffers_equal_under_ddp(),
      scenarios::sync_batch_norm_gradients_want_weights(),
      scenarios::join_uneven_inputs_are_told(),
      scenarios::join_matches_single_process(),
      scenarios::failures_survivors_are_told(),
      scenarios::failures_exception_in_backward_is_told(),
      scenarios::canary_every_rank_is_rank_zero(),
  };
}

}  // namespace lockstep
