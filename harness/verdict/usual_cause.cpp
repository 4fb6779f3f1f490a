#include "harness/verdict/usual_cause.h"

#include "harness/base/dtype.h"

#include <algorithm>
#include <span>

namespace lockstep {

namespace {

constexpr std::string_view kMismatched = "mismatched_collectives";

struct Known {
  std::string_view what;  // a pattern, or words of an exception
  std::string_view cause;
};

constexpr Known kByPattern[] = {
    {"sum_not_average", "gradients are summed by all_reduce and never divided by the world size"},
    {"divided_twice",
     "gradients or the loss are divided by the world size, as DDP does already; or the loss is a "
     "sum over each rank's samples, and no mean"},
    {"factor_one_over_world_size",
     "gradients or the loss are divided by the world size, as DDP does already"},
    {"not_reduced",
     "the backward ran past the wrapper (model.module), inside no_sync or through a graph again; "
     "or the parameter is in no bucket"},
    {"never_averaged", "no averager ran, or its step was left out"},
    {"one_rank_undivided", "one rank's gradients enter the sum before they are divided"},
    {"scaled_not_reduced", "the division ran, and the all_reduce did not, or on a copy"},
    {"average_of_averages",
     "each rank's loss averages over its own samples, and batches differ in size: weigh it by "
     "W n_r / N"},
    {"off_by_batch_ratio",
     "the reduced sum is divided, or multiplied, by each rank's own number of samples: every rank "
     "needs the same divisor"},
    {"loss_summed", "the loss has reduction=\"sum\", where the average over the samples belongs"},
    {"constant_factor",
     "another divisor than the one that belongs there, as samples or micro-batches in place of "
     "ranks; or a scale that is never taken back"},
    {"divided_by_elements", "the average over the ranks was taken as one over the elements"},
    {"last_steps_value",
     "a value was used before the collective that writes it was awaited (Work.wait), or was not "
     "written"},
    {"one_rank_stale",
     "a value was used before the collective that writes it was awaited (Work.wait), or was not "
     "written"},
    {"last_steps_gradient",
     "a bucket is sent before the gradient of this backward was copied into it"},
    {"parameters_mixed", "ranks launch their buckets in different orders"},
    {"parameters_permuted", "ranks order their parameters differently, or copy back by position"},
    {"divided_by_its_users",
     "the sum is divided by the ranks that used the parameter; DDP divides by all"},
    {"divided_by_the_world", "the divisor is the world size, where that of process_group belongs"},
    {"divided_by_the_other_count",
     "Join's divide_by_initial_world_size is not the one that was asked for"},
    {"added_not_written", "the average is added to .grad where it must replace it"},
    {"rank_zeros_gradient", "gradients are broadcast from rank 0 where they must be averaged"},
    {"largest_not_sum", "all_reduce with ReduceOp.MAX where ReduceOp.SUM belongs"},
    {"one_rank_left_out", "one rank's gradient is not in the sum, and counts in the divisor"},
    {"empty_ranks_not_counted",
     "the divisor counts the ranks that have samples; DDP divides by all of them"},
    {"another_steps_value",
     "a value of another step was used: one that is not awaited, not written, or loaded from "
     "elsewhere"},
    {"average_over_a_half", "a process group of half of the ranks was used"},
    {"window_not_reduced",
     "gradients that added up inside no_sync are left out of the last backward's average"},
    {"last_micro_batch_left_out", "the last backward of a window runs inside no_sync, too"},
    {"reduced_inside_no_sync", "no_sync does not reach this forward, or is entered behind it"},
    {"reduced_a_bare_pass",
     "a forward outside of no_sync arms DDP's hooks, and the next backward over these parameters "
     "is averaged, one of model.module too"},
    {"no_gradient", "a gradient that autograd left undefined was skipped, where it counts as zero"},
    {"unexpected_gradient", "a parameter that no rank used is averaged as zero, and written"},
    {"own_initial_state",
     "rank 0's values were not broadcast when the model was wrapped (init_sync=False; for buffers "
     "broadcast_buffers=False, too), or were loaded afterwards"},
    {"took_another_ranks_state", "the initial broadcast has another source than rank 0"},
    {"kept_own_buffers",
     "broadcast_buffers=False, or buffers are not broadcast before the forward"},
    {"took_rank_zeros_buffers",
     "buffers are broadcast although broadcast_buffers=False, or in a forward that follows a local "
     "one"},
    {"took_another_ranks_buffers", "the broadcast of buffers has another source than rank 0"},
    {"averaged_buffers", "buffers are averaged, where DDP broadcasts rank 0's"},
    {"broadcast_after_forward", "buffers are broadcast behind the forward, not before it"},
    {"local_statistics", "BatchNorm where SyncBatchNorm belongs (convert_sync_batchnorm)"},
    {"running_statistics_local", "BatchNorm where SyncBatchNorm belongs (convert_sync_batchnorm)"},
    {"eps_missing", "eps is not added to the variance"},
    {"eps_beside_the_root", "eps is added to the standard deviation, not to the variance"},
    {"biased_variance", "running_var takes the variance by n, where n - 1 belongs"},
    {"unbiased_variance", "the variance is divided by n - 1, as running_var alone has it"},
    {"count_from_own", "the rank's own batch size stands for every rank's"},
    {"running_count_from_own", "the rank's own batch size stands for every rank's"},
    {"backward_count_from_own", "the rank's own batch size stands for every rank's"},
    {"backward_local", "the backward's sums are not reduced over the ranks"},
    {"sum_left_out", "the backward reduces one of sum(grad) and sum(grad * (x - mean)) alone"},
    {"affine_gradients_summed", "weight.grad and bias.grad are reduced, which DDP does again"},
    {"affine_gradients_averaged", "weight.grad and bias.grad are reduced, which DDP does again"},
    {"no_projection", "P is not orthogonal, or P or Q was not reduced, or not loaded"},
    {"factor_summed", "P or Q is summed over the ranks and never divided by the world size"},
    {"began_late", "the hook's count of steps is not in its saved state, or was not loaded"},
    {"not_sent",
     "the ranks' broadcasts of what they updated end one rank early, or are not awaited"},
    {"another_learning_rate",
     "the param groups' options (lr, ...) of a loaded state were not taken over"},
    {"epoch_begun_anew",
     "the sampler's epoch is saved and loaded, and its place in the epoch is not"},
    {"left_gradients", "the backward that steps clears no gradients, or those of one param group"},
    {"left_zeros", "zero_grad(set_to_none=False) behind the step that a backward makes"},
    {"stepped_inside_no_sync",
     "the optimizer steps in every backward; those inside no_sync must add up alone"},
    {"refused_a_fitting_input",
     "a check of BatchNorm2d's four axes, or of two values on each rank: SyncBatchNorm takes (N, "
     "C) and any axes behind, and needs two values in the whole group"},
    {"sentences_differ",
     "a rank throws alone, before the ranks have compared what each has or sent their errors"},
    {"not_the_best", "Q is drawn anew in each step although warm_start=True"},
    {"gradients_lost", "the error feedback is not added to the next gradient"},
    {"inverse_deviations_averaged",
     "the ranks' 1/sqrt(var + eps) are averaged; variances have to be, around the common average"},
    {"models_summed", "models are summed by all_reduce and never divided by the world size"},
    {"another_source", "the collective's src or dst is not the one that was given"},
    {"not_received",
     "the result is written to a copy (contiguous()), and never copied back to the tensor"},
    {"epoch_ignored", "no sampler.set_epoch(epoch) before each epoch"},
    {"seed_ignored", "the sampler's seed does not reach its generator"},
    {"blocks_not_strides", "the dataset is cut into blocks; DistributedSampler takes every W-th"},
    {"unequal_lengths",
     "the last round of samples is neither padded to all ranks nor dropped, or ranks have datasets "
     "of different lengths"},
    {"not_a_partition",
     "no DistributedSampler, or one whose rank, number of replicas or seed is not this rank's"},
    {"out_of_range", "the sampler's length is not that of the dataset"},
    {"not_finite",
     "a division by zero, as by the samples of an empty batch; an overflow; or memory that nothing "
     "has written"},
    {"one_rank_not_finite",
     "a division by zero, as by the samples of an empty batch; an overflow; or memory that nothing "
     "has written"},
    {"other_length", "ranks built their datasets from different files"},
    {"every_rank_draws_all",
     "no DistributedSampler: each rank's DataLoader draws the whole dataset"},
    {"same_batches", "no DistributedSampler, or one with rank 0 on every rank"},
    {"split_differently", "DistributedSampler has another seed or epoch on some rank"},
    {"same_random_stream", "one torch.manual_seed(seed) on all ranks: seed + rank for dropout"},
    {"bare_forward", "model.module(x) where model(x) belongs"},
    {"update_off_by_world", "the learning rate was scaled by the world size, or should have been"},
    {"accumulation_not_divided", "the loss is not divided by the number of micro-batches"},
    {"synchronised_on_some_ranks", "no_sync() stands under a condition that differs by rank"},
    {"changed_on_some_ranks", "parameters were changed or loaded under `if rank == 0`"},
    {"skipped_update", "optimizer.step() stands under a condition that differs by rank"},
    {"stopped_early", "ranks have unequal numbers of batches: drop_last=True, or Join"},
    {kMismatched,
     "models that differ by rank, ranks that take different branches (parameters that some use, a "
     "collective under `if rank == 0`), or collectives in an order of each rank's own"},
    {"left_behind", "a Work that nobody waits for, a thread, or a file that stays open"},
    {"signalled", "native code that uses what is freed, or memory that ran out"},
    {"exited", "exit() in the program of a rank, where an exception belongs"},
    {"refused_by_some", "an option or a layer that some ranks alone have"},
    {"recorded_less", "a program that returns early, and without an exception"},
    {"vacuous", "a program that records nothing of what the checks look at"},
    {"collective_in_evaluation",
     "the first forward with gradients after the first averaged backward broadcasts the order of "
     "buckets (unless find_unused_parameters=True), in eval() and inside no_sync too; the first "
     "forward after a training step broadcasts buffers, under no_grad() too: evaluate ddp.module"},
    {"warned_more_or_less_often", "the warning is counted per pass, and not per replica"},
    {"another_warning", "the warning speaks of another pass than the first one"},
};

constexpr std::string_view kConverted =
    "a conversion after wrapping (model.to(dtype)) gives parameters new gradient accumulators, and "
    "DDP's hooks stay on the old ones: convert, then wrap";

constexpr Known kByException[] = {
    {"Can't detach views in-place",
     "LibTorch's zero_grad(set_to_none=false) detaches gradients, which those that are views of "
     "buckets (gradient_as_bucket_view) refuse; zero_grad(true) does not, nor does torch.optim in "
     "Python"},
    {"modified by an inplace operation",
     "a second forward broadcasts buffers in place that the first one's graph saved, which "
     "broadcast_buffers=False, or one forward for both, avoids"},
    {"expect_autograd_hooks_",
     "static_graph=True queues its first reduction inside no_sync, too, which is a mistake of "
     "PyTorch's (issue 143580): run the first backward outside of no_sync"},
    {"marked as ready twice",
     "a parameter gets its gradient twice in one backward: a reentrant checkpoint "
     "(use_reentrant=False is the cure), or a module that several forwards share"},
    {"mark a variable ready only once",
     "a parameter gets its gradient twice in one backward: a reentrant checkpoint "
     "(use_reentrant=False is the cure), or a module that several forwards share"},
    {"not compatible with static_graph",
     "static_graph=True takes the first pass for all of them, and passes differ: parameters that "
     "one of them alone uses, or a first pass inside no_sync"},
    {"did not receive grad",
     "parameters of the forward take no part in the loss on some rank: "
     "find_unused_parameters=True, or leave them out of the model"},
    {"Expected to have finished reduction",
     "parameters of the forward take no part in the loss on some rank: "
     "find_unused_parameters=True, or leave them out of the model"},
    {"was ended by SIGKILL",
     "memory that ran out, which the kernel ends the largest process for, or a limit of the job"},
};

bool has_step(const Json& value, const char* op) {
  const auto steps = value.value("steps", Json());
  return steps.is_array() && std::any_of(steps.begin(), steps.end(), [op](const Json& step) {
           return step.is_object() && step.value("op", "") == op;
         });
}

template <bool value>
bool has_option(const Json& of, const char* name) {
  return of.value(Json::json_pointer(std::string("/options/") + name), Json()) == Json(value);
}

bool is_any(const Json&, const char*) {
  return true;
}

// Says more than the pattern alone: of a finding whose rule holds these words, in a case whose
// value holds this.
struct KnownInCase {
  std::string_view pattern, rule;
  bool (*holds)(const Json& value, const char* name);
  const char* name;
  std::string_view cause;
};
constexpr KnownInCase kInCase[] = {
    {"not_reduced", "was converted and converted back", is_any, "", kConverted},
    {"not_reduced", "its own forward was synchronised", is_any, "",
     "DDP reduces once, for the last forward: a second backward through one graph, or one of an "
     "earlier forward, stays local"},
    {"not_reduced", "", has_step, "convert", kConverted},
    {"not_reduced", "", has_step, "bare",
     "a backward past the wrapper (model.module) takes the reduction that the last forward "
     "prepared, or has none"},
    {"not_reduced", "", has_step, "backward_retained",
     "DDP reduces once for each forward: a second backward through its graph stays local"},
    {kMismatched, "", has_option<true>, "skip_all_reduce_unused_params",
     "skip_all_reduce_unused_params=True, though ranks leave different parameters unused: one "
     "skips a bucket that another sends"},
    {"own_initial_state", "buffers", has_option<false>, "broadcast_buffers",
     "broadcast_buffers=False, with which PyTorch leaves buffers out of the initial broadcast, "
     "too"},
};

std::string found(std::span<const Known> table, const auto& fits) {
  const auto known = std::find_if(table.begin(), table.end(), fits);
  return known == table.end() ? "" : std::string(known->cause);
}

}  // namespace

bool states_its_cause(const Finding& finding) {
  return std::any_of(finding.details.begin(), finding.details.end(), [](const auto& detail) {
    const auto* text = std::get_if<std::string>(&detail);
    return text && text->starts_with("cause: ");
  });
}

std::string usual_cause_of_exception(const std::string& what) {
  return found(kByException,
               [&](const Known& known) { return what.find(known.what) != std::string::npos; });
}

std::string usual_cause(const Finding& finding, const Json& value) {
  if (states_its_cause(finding) || !finding.limit.empty()) return "";
  const auto in_case =
      std::find_if(std::begin(kInCase), std::end(kInCase), [&](const KnownInCase& known) {
        return known.pattern == finding.pattern &&
               finding.rule.find(known.rule) != std::string::npos && known.holds(value, known.name);
      });
  if (in_case != std::end(kInCase)) return std::string(in_case->cause);
  if (!finding.cause.empty()) return finding.cause;
  if (auto cause = usual_cause_of_exception(finding.diagnosis); !cause.empty()) return cause;
  return found(kByPattern, [&](const Known& known) { return known.what == finding.pattern; });
}

std::string backend_limit(const Collective& one) {
  const auto dtype = value_of_word<Dtype>(one.dtype);
  if (!dtype || gloo_carries(*dtype, one.op)) return "";
  return "Gloo's " + one.op + " carries no " + one.dtype + ", and the subject sends one as it is";
}

}  // namespace lockstep
