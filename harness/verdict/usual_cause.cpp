#include "harness/verdict/usual_cause.h"

#include <algorithm>
#include <iterator>

namespace lockstep {

namespace {

struct Known {
  std::string_view pattern;
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
     "the forward ran past DDP (model.module(x), or a model that is not wrapped) or inside "
     "no_sync; or the parameter is in no bucket: call the wrapped model, outside no_sync for the "
     "last micro-batch"},
    {"never_averaged", "no averager ran, or its step was left out"},
    {"wrong_shares_taken",
     "lengths that were computed for another number of samples: the rest is in no part"},
    {"outdated_state_given_out",
     "the state was gathered over the ranks before the update, or before a group was added"},
    {"one_rank_undivided", "one rank's gradients enter the sum before they are divided"},
    {"scaled_not_reduced", "the division ran, and the all_reduce did not, or on a copy"},
    {"average_of_averages",
     "each rank's loss averages over its own samples, and batches differ in size: multiply it by "
     "world_size * own samples / all samples"},
    {"off_by_batch_ratio",
     "the reduced sum is divided, or multiplied, by each rank's own number of samples: every rank "
     "needs the same divisor"},
    {"loss_summed", "the loss has reduction=\"sum\", where the average over the samples belongs"},
    {"constant_factor",
     "gradients are divided by another number than the world size (samples, micro-batches), or a "
     "scaled loss is never unscaled"},
    {"divided_by_elements", "the average over the ranks was taken as one over the elements"},
    {"last_steps_value",
     "Work.wait() was not called before the value was used, or the value was not written"},
    {"one_rank_stale",
     "Work.wait() was not called before the value was used, or the value was not written"},
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
    {"reduced_inside_no_sync",
     "the loop never enters no_sync(), enters it after the forward, or the wrapper ignores it; or "
     "a later forward outside no_sync prepared the averaging that this backward took: run forward "
     "and backward inside no_sync(), before the next forward"},
    {"reduced_a_bare_pass",
     "the last forward outside no_sync prepared the averaging, and a backward of model.module took "
     "it; or the wrapper averages after every backward: run the backward of that forward first"},
    {"no_gradient",
     "autograd passed None for this parameter (a custom Function returned None) and it was "
     "skipped: all-reduce zeros in its place, as DDP does without find_unused_parameters and "
     "static_graph"},
    {"unexpected_gradient",
     "zeros were averaged for a parameter that no rank used: leave its .grad None"},
    {"own_initial_state",
     "rank 0's values were not broadcast when the model was wrapped: init_sync=False; for buffers "
     "broadcast_buffers=False, too"},
    {"took_another_ranks_state", "the initial broadcast has another source than rank 0"},
    {"kept_own_buffers",
     "broadcast_buffers=False, a forward of model.module, or a wrapper that does not broadcast "
     "buffers before each forward"},
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
     "no DistributedSampler, or one with a wrong rank or num_replicas, or with another seed than "
     "on the other ranks"},
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
    {"stopped_early", "ranks have unequal numbers of batches: use DistributedSampler, or Join"},
    {kMismatched,
     "models that differ by rank, ranks that take different branches (parameters that some use, a "
     "collective under `if rank == 0`), or collectives in an order of each rank's own"},
    {"left_behind", "a Work that nobody waits for, a thread, or a file that stays open"},
    {"signalled", "native code failed: read the stack and the last lines that the rank wrote"},
    {"exited", "exit() in the program of a rank, where an exception belongs"},
    {"refused_by_some", "an option or a layer that some ranks alone have"},
    {"recorded_less", "a program that returns early, and without an exception"},
    {"vacuous", "a program that records nothing of what the checks look at"},
    {"collective_in_evaluation",
     "in eval(), too, the first forward of DDP after a training step broadcasts buffers, and once, "
     "with gradients, the order of buckets (unless find_unused_parameters=True without "
     "static_graph): where some ranks alone evaluate, they hang: evaluate ddp.module"},
    {"inputs_seen_again",
     "itertools.cycle(), or a loader that starts again: end the loop, and train inside Join"},
    {"sent_otherwise", "gradients that DDP has averaged already are all-reduced again"},
    {"launched_at_the_end",
     "buckets are filled in the order of the forward, or sent after backward()"},
    {"whole_batch_on_each_rank", "no DistributedSampler: every rank loads the whole batch"},
    {"warned_more_or_less_often", "the warning is counted per pass, and not per replica"},
    {"another_warning", "the warning speaks of another pass than the first one"},
};

}  // namespace

bool states_its_cause(const Finding& finding) {
  return std::any_of(finding.details.begin(), finding.details.end(),
                     [](const auto& detail) { return std::holds_alternative<Cause>(detail); });
}

std::string usual_cause(const Finding& finding) {
  if (states_its_cause(finding) || !finding.limit.empty()) return "";
  if (!finding.cause.empty()) return finding.cause;
  if (auto cause = usual_cause_of_exception(finding.diagnosis); !cause.empty()) return cause;
  const auto known =
      std::find_if(std::begin(kByPattern), std::end(kByPattern),
                   [&](const Known& each) { return each.pattern == finding.pattern; });
  return known == std::end(kByPattern) ? "" : std::string(known->cause);
}

}  // namespace lockstep
