// The arguments that the ranks of a collective must have alike, and calls in which one rank has
// another one.
#pragma once

#include "harness/base/case.h"
#include "harness/rank/rank_context.h"

#include <functional>
#include <string>

namespace lockstep::scenarios::collectives {

enum class Argument {
  // of a program's own collectives
  collective,
  dtype,
  shape,
  reduction,
  destination,
  source,
  gathered_dtype,
  destination_of_gather,
  source_of_scatter,
  reduction_of_reduce,
  shape_of_reduce,
  shape_of_broadcast,
  gathered_shape,
  shape_of_gather,
  shape_of_scatter,
  no_elements,  // in its tensor of an all_reduce
  ranks_of_new_group,
  parts_beside_the_source,  // are given by a rank that has none to give
  parts_of_the_source,      // are one too few
  // of averages of models
  period,
  warmup_steps,
  levels,
  averaged_gradient,
  averaged_shape,
  count_of_averaged,
  step_of_average,
  // of a sharded optimizer
  groups,
  parameters_of_group,
  parameter,
  class_of_optimizer,
  learning_rate,
  learning_rate_of_last_group,
  added_group,
  receiver_of_state,
  // of a checkpoint
  parts,
  epoch,
  step,
  seed_of_sampler,
  position_of_sampler,
  keep_last,
  is_best,
  generators,
  loaded_parts,
  loaded_file,
  // of a replica
  hook,
  pass_of_local_sgd,
  place_of_buffer_hook,
  optimizer_in_backward,
  divisor_of_join,
  throw_of_join,
  joinables,
  // of a SyncBatchNorm
  features,
  eps,
  momentum,
  affine,
  track_running_stats,
  group_of_layer,  // over which a layer of a wrapped model trains
  // of check_replicas_equal
  compared_parts,
  compared_rate,   // of the optimizer's last group
  compared_state,  // of its last parameter
  compared_length,
  compared_epoch,
  // of the source of a scatter
  shape_of_first_part,
  shape_of_last_part,
  // of a program's own collectives, with which a rank cannot take part
  undefined_tensor,
  sparse_tensor,
  source_beyond_the_world,
  destination_below_zero,
  sum_of_booleans,
  average_of_integers,
  bits_of_numbers,
  product_of_complex_numbers,
  no_timeout,
  undefined_part,
  rank_twice,
  rank_beyond_the_world,
  rank_below_zero,
  // of averagers
  period_of_zero,
  warmup_below_zero,
  no_levels,
  levels_of_one_period,
  levels_of_odd_groups,
  levels_of_more_ranks,
  averaged_devices,
  // of a SyncBatchNorm's input
  channels_of_input,
  row_of_input,
  integers_of_input,
  // of a checkpoint that is saved
  empty_path,
  nothing_saved,
  undefined_generator,
  samples_of_no_sampler,
  none_kept,
  folder_in_the_way,
  optimizer_of_no_checkpoint,
  // of a sharded optimizer
  undefined_parameter,
  sparse_parameter,
  computed_parameter,
  parameter_twice,
  no_parameters,
  no_optimizer,
  optimizer_of_other_groups,
  optimizer_by_all_gradients,
  group_added_again,
  // of a checkpoint that is loaded: the file
  missing_file,
  file_of_another_kind,
  torn_file,
  file_of_another_writer,
  newer_file,
  file_without_epoch,
  file_without_optimizer,
  file_without_model,
  file_of_another_model,
  file_of_another_shape,
  file_of_another_dtype,
  file_of_numbers,
  file_of_numbered_tensors,
  file_of_odd_keys,
  file_of_adamw,
  file_that_maximizes,
  file_of_more_parameters,
  file_of_three_betas,
  file_of_a_number_for_a_flag,
  file_of_a_text_for_a_number,
  file_of_more_groups,
  file_of_no_list,
  file_without_rate,
  file_without_betas,
  file_without_eps,
  file_without_weight_decay,
  file_without_amsgrad,
  file_without_count,
  file_without_first_average,
  file_without_second_average,
  file_of_half_a_step,
  file_of_two_counts,
  file_of_another_state,
  file_of_more_ranks,
  file_of_fewer_generators,
  // its pickle
  pickle_that_ends,
  pickle_of_nothing,
  pickle_without_items,
  pickle_without_a_mark,
  pickle_without_a_list,
  pickle_without_a_dictionary,
  pickle_without_a_value,
  pickle_that_refers_to_nothing,
  pickle_of_another_protocol,
  pickle_that_calls,
  pickle_of_a_large_number,
  pickle_that_changes_a_value,
  tensor_beyond_its_storage,
  tensor_before_its_storage,
  tensor_of_fewer_strides,
  tensor_of_a_missing_record,
  tensor_of_another_length,
  tensor_of_odd_numbers,
};

struct Disagreeing {
  WorldSpec world;
  Argument argument = Argument::collective;
  int rank = 0;  // that has another one, modulo the world's size
  auto operator<=>(const Disagreeing&) const = default;
  static constexpr auto fields() {
    return std::tuple{field("world", &Disagreeing::world),
                      field("argument", &Disagreeing::argument),
                      field("rank", &Disagreeing::rank, between(0, 1023))};
  }
};

// The words of an argument in a sentence: what it is called, and what the ranks have, which is
// empty where the case does not say; or why the rank with another one cannot take part.
struct Said {
  std::string subject, by_most, by_one;
  std::string refusal = "";
  int refusing = -1;  // the rank that cannot take part; -1: the one with another argument
};
Said said_of(const Disagreeing& c);

// Makes the call, with the other argument or with that which all have. Called several times, it
// continues with the same objects where it can.
std::function<void(bool has_another)> call_of(const Disagreeing& c, RankContext& here);

}  // namespace lockstep::scenarios::collectives
