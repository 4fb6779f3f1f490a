#include "harness/invariants/invariants.h"

#include <array>

namespace lockstep::recorded {

std::span<const Invariant> invariants() {
  static constexpr std::array kInvariants{
      Invariant{"run.is_recorded_whole", "Every rank must record its whole run",
                ranks_record_whole_run},
      Invariant{"collectives.have_one_order",
                "Every rank must issue the same collectives in the same order",
                collectives_have_one_order},
      Invariant{"run.has_one_length", "Every rank must make the same number of updates",
                ranks_make_the_same_steps},
      Invariant{"data.is_one_dataset", "Every rank must split the same dataset in the same way",
                datasets_are_the_same},
      Invariant{"data.is_partitioned",
                "The ranks' samples must cover the dataset, and no two ranks may draw the same one",
                passes_are_partitions},
      Invariant{"data.order_changes",
                "A training that shuffles must have another order in each epoch", orders_change},
      Invariant{"data.evaluates_each_sample_once",
                "An evaluation that is split over the ranks must draw no sample twice",
                evaluations_repeat_no_sample},
      Invariant{"random.streams_differ", "The ranks must not drop the same units",
                random_streams_differ},
      Invariant{"forward.runs_through_the_wrapper",
                "A training's forward must run through DistributedDataParallel",
                forwards_run_through_the_wrapper},
      Invariant{"gradients.are_the_same",
                "After a synchronised backward all ranks must hold the same gradients",
                gradients_are_the_same},
      Invariant{"gradients.are_averages",
                "An update must take the average of the ranks' gradients, whose terms count alike",
                gradients_are_averages},
      Invariant{"gradients.differ_in_no_sync",
                "Within no_sync each rank must hold the gradients of its own batch",
                gradients_differ_in_no_sync},
      Invariant{"gradients.reach_every_parameter",
                "Every parameter that requires a gradient must get one in some backward",
                gradients_reach_every_parameter},
      Invariant{"optimizer.owns_parameters_once", "Every parameter must belong to one optimizer",
                optimizers_own_parameters_once},
      Invariant{"optimizer.has_one_setting",
                "The optimizers of all ranks must have the same hyper-parameters",
                hyper_parameters_are_the_same},
      Invariant{"optimizer.has_one_state", "The optimizers of all ranks must have the same state",
                optimizer_state_is_the_same},
      Invariant{"parameters.are_the_same",
                "All ranks must hold the same parameters after construction and after every update",
                parameters_are_the_same},
      Invariant{"buffers.follow_rank_zero",
                "All ranks must hold rank 0's buffers after a broadcast", buffers_follow_rank_zero},
      Invariant{"values.stay_finite", "Parameters, buffers and optimizers must hold finite numbers",
                values_stay_finite},
  };
  return kInvariants;
}

}  // namespace lockstep::recorded
