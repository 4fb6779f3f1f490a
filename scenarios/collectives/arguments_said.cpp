// The words that a sentence has for a disagreement.
#include "harness/worlds/options.h"
#include "scenarios/collectives/refused_arguments.h"

#include <map>

namespace lockstep::scenarios::collectives {

namespace {

std::string name_of(CollectiveKind kind) {
  return word_of(kind) + " 'of the program'";
}

}  // namespace

Said said_of(const Disagreeing& c) {
  if (const auto found = refused(c)) return {.refusal = found->reason, .refusing = found->rank};
  using enum Argument;
  using enum CollectiveKind;
  const std::string all = std::to_string(c.world.size);
  const std::string sharding = " of ZeroRedundancyOptimizer", saving = " of save_checkpoint";
  const std::string norm = " of SyncBatchNorm", averager = " of PeriodicModelAverager";
  const std::string comparing = " of check_replicas_equal";
  const auto refused_part = [](int part) {
    return name_of(scatter) + ": part " + std::to_string(part) +
           " is Double [3] on cpu, expected the tensor's Double [2] on cpu";
  };
  const std::map<Argument, Said> words{
      {collective, {"the collective", name_of(all_reduce), name_of(barrier)}},
      {dtype, {"the dtype of the tensor of " + name_of(all_reduce), "Double", "Float"}},
      {shape, {"the shape of the tensor of " + name_of(all_reduce), "[2]", "[3]"}},
      {reduction, {"the reduction of " + name_of(all_reduce), "SUM", "MAX"}},
      {destination, {"the destination of " + name_of(reduce), "0", "1"}},
      {source, {"the source of " + name_of(broadcast), "0", "1"}},
      {gathered_dtype, {"the dtype of the tensor of " + name_of(all_gather), "Double", "Float"}},
      {destination_of_gather, {"the destination of " + name_of(gather), "0", "1"}},
      {source_of_scatter, {"the source of " + name_of(scatter), "0", "1"}},
      {reduction_of_reduce, {"the reduction of " + name_of(reduce), "SUM", "MAX"}},
      {shape_of_reduce, {"the shape of the tensor of " + name_of(reduce), "[2]", "[3]"}},
      {shape_of_broadcast, {"the shape of the tensor of " + name_of(broadcast), "[2]", "[3]"}},
      {gathered_shape, {"the shape of the tensor of " + name_of(all_gather), "[2]", "[3]"}},
      {shape_of_gather, {"the shape of the tensor of " + name_of(gather), "[2]", "[3]"}},
      {shape_of_scatter, {"the shape of the tensor of " + name_of(scatter), "[2]", "[3]"}},
      {no_elements, {"the shape of the tensor of " + name_of(all_reduce), "[2]", "[0]"}},
      {ranks_of_new_group, {"the ranks of new_group", "0", "1"}},
      {parts_beside_the_source,
       {.refusal = name_of(scatter) +
                   ": parts are given on a rank that is not the source, expected none"}},
      {parts_of_the_source,
       {.refusal = name_of(scatter) + ": the source gives " + std::to_string(c.world.size - 1) +
                   " parts, expected one for each of " + all + " ranks"}},
      {period, {"period" + averager, "1", "2"}},
      {warmup_steps, {"warmup_steps" + averager, "0", "1"}},
      {levels,
       {"levels of HierarchicalModelAverager", "period 1 in groups of " + all,
        "period 2 in groups of " + all}},
      {Argument::averaged_gradient,
       {"parameter 0 of average_parameters", "Double [2] on cpu with a gradient",
        "Double [2] on cpu without a gradient"}},
      {averaged_shape,
       {"parameter 0 of average_parameters", "Double [2] on cpu with a gradient",
        "Double [3] on cpu with a gradient"}},
      {count_of_averaged, {"the number of parameters of average_parameters", "1", "2"}},
      {step_of_average, {"the step of average_parameters", "0", "2"}},
      {groups, {"the number of groups" + sharding, "1", "2"}},
      {parameters_of_group, {"the number of parameters in group 0" + sharding, "1", "2"}},
      {Argument::parameter,
       {"parameter 0 in group 0" + sharding, "Double [2] on cpu", "Double [3] on cpu"}},
      {class_of_optimizer, {"the optimizer" + sharding, "torch::optim::SGD", "torch::optim::Adam"}},
      {learning_rate, {"the learning rate of group 0" + sharding + "::step", "0.5", "0.25"}},
      {learning_rate_of_last_group,
       {"the learning rate of group 1" + sharding + "::step", "0.5", "0.25"}},
      {added_group,
       {"the number of parameters in group 1" + sharding + "::add_param_group", "1", "2"}},
      {receiver_of_state,
       {"the rank that receives" + sharding + "::consolidate_state_dict", "0", "1"}},
      {parts, {"the parts" + saving, "model, sampler, epoch, step", "sampler, epoch, step"}},
      {epoch, {"the epoch" + saving, "2", "3"}},
      {step, {"the step" + saving, "4", "5"}},
      {seed_of_sampler, {"the sampler's seed" + saving, "0", "1"}},
      {position_of_sampler, {"the sampler's position" + saving, "0", "1"}},
      {keep_last, {"keep_last" + saving, "1", "2"}},
      {is_best, {"is_best" + saving, "false", "true"}},
      {Argument::generators, {"the sizes of the generators' states" + saving, "", ""}},
      {loaded_parts, {"the parts of load_checkpoint", "epoch, step", "step"}},
      {loaded_file, {"the checksum of the file of load_checkpoint", "", ""}},
      {hook, {"the communication hook", "'all_reduce'", "'noop'"}},
      {pass_of_local_sgd,
       {"the communication hook", "'post_local_sgd, start_local_sgd_iter 2, then no average'",
        "'post_local_sgd, start_local_sgd_iter 2, then no average, continued at iter 1'"}},
      {place_of_buffer_hook,
       {"the buffer hook", "'average_buffers' before forward", "'average_buffers' after forward"}},
      {optimizer_in_backward,
       {"the optimizer that steps in backward", "torch::optim::SGD", "torch::optim::Adam"}},
      {divisor_of_join, {"join's divide_by_initial_world_size", "true", "false"}},
      {throw_of_join, {"join's throw_on_early_termination", "false", "true"}},
      {joinables, {"join's joinables", "none", "'ZeroRedundancyOptimizer'"}},
      {features, {"num_features" + norm, "2", "3"}},
      {eps, {"eps" + norm, "0.0625", "0.125"}},
      {momentum, {"momentum" + norm, "0.25", "0.5"}},
      {affine, {"affine" + norm, "true", "false"}},
      {track_running_stats, {"track_running_stats" + norm, "true", "false"}},
      {group_of_layer, {"the layers of SyncBatchNorm", "'norm'", "'norm' over a group of its own"}},
      {compared_parts,
       {"the parts" + comparing, "no model, an optimizer, a sampler", "no model, an optimizer"}},
      {compared_rate, {"option 'lr' of the optimizer's param group 1" + comparing, "0.5", "0.25"}},
      {compared_state,
       {"element [0] of 'momentum_buffer' in the optimizer's state of parameter 1 of the optimizer",
        "1", "2"}},
      {compared_length, {"the sampler's dataset_size" + comparing, "4", "5"}},
      {compared_epoch, {"the sampler's epoch" + comparing, "2", "3"}},
      {shape_of_first_part, {.refusal = refused_part(0)}},
      {shape_of_last_part, {.refusal = refused_part(c.world.size - 1)}}};
  return words.at(c.argument);
}

}  // namespace lockstep::scenarios::collectives
