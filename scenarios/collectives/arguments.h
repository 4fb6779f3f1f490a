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
};
Said said_of(const Disagreeing& c);

// Makes the call, with the other argument or with that which all have. Called several times, it
// continues with the same objects where it can.
std::function<void(bool has_another)> call_of(const Disagreeing& c, RankContext& here);

}  // namespace lockstep::scenarios::collectives
