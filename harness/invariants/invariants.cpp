#include "harness/invariants/invariants.h"

#include "harness/invariants/against/against.h"
#include "harness/invariants/resumed.h"

#include <algorithm>
#include <array>

namespace lockstep::recorded {

std::span<const Invariant> all_invariants() {
  static constexpr std::array kAll{
      Invariant{
          .name = "run.is_recorded_whole",
          .rule = "Every rank must record its whole run",
          .compared = "how each rank's history ends, and its process group",
          .mistake = "a rank threw, or trained alone since the launcher's variables were missing",
          .cure = "read the exception of the rank that is named: the others waited for it",
          .not_seen = "what ended a rank that left no ending, such as SIGKILL",
          .judge = ranks_record_whole_run},
      Invariant{.name = "collectives.have_one_order",
                .rule = "Every rank must issue the same collectives in the same order",
                .compared = "the collectives of each group, number by number, over the ranks",
                .mistake = "an all-reduce for the log on rank 0 alone",
                .cure = "let every rank of the group issue it, in the same order",
                .not_seen = "collectives that go past torch.distributed, and those within a "
                            "backward of PyTorch's DistributedDataParallel",
                .judge = collectives_have_one_order},
      Invariant{
          .name = "run.has_one_length",
          .rule = "Every rank must make the same number of updates",
          .compared = "synchronised backwards and updates, one after the other, over the ranks",
          .mistake = "early stopping by a rank's own loss; an update that one rank skips",
          .cure = "let all ranks decide together, from a loss that was reduced",
          .judge = ranks_make_the_same_steps},
      Invariant{
          .name = "data.is_one_dataset",
          .rule = "Every rank must split the same dataset in the same way",
          .compared = "length, content, seed, epoch and number of ranks of what samplers split",
          .mistake = "random_split with another seed on each rank; files that one rank lacks",
          .cure = "seed what makes the dataset, the same on every rank",
          .not_seen = "datasets without a sampler that splits them",
          .judge = datasets_are_the_same},
      Invariant{
          .name = "data.is_partitioned",
          .rule =
              "The ranks' samples must cover the dataset, and no two ranks may draw the same one",
          .compared = "the samples of each batch and pass, what loaders handed out, and the losses",
          .mistake = "shuffle=True, or WeightedRandomSampler, in place of a DistributedSampler",
          .cure = "a sampler that knows the ranks, or draws of each rank's own",
          .not_seen = "what a program reads without a loader, but by its losses",
          .judge = passes_are_partitions},
      Invariant{.name = "data.order_changes",
                .rule = "A training that shuffles must have another order in each epoch",
                .compared = "each whole pass of a training with the last whole one of its loader",
                .mistake = "sampler.set_epoch forgotten, or a loader made anew in each epoch",
                .cure = "call sampler.set_epoch(epoch) before each pass",
                .not_seen = "passes that were cut short",
                .judge = orders_change},
      Invariant{.name = "data.evaluates_each_sample_once",
                .rule = "An evaluation that is split over the ranks must draw no sample twice",
                .compared = "the samples of passes without a backward, and reductions after them",
                .mistake = "a metric averaged over the samples with which DistributedSampler pads",
                .cure = "drop the padding before the reduction, or split without it",
                .not_seen = "whether a program drops it itself: then it is a remark",
                .judge = evaluations_repeat_no_sample},
      Invariant{.name = "random.streams_differ",
                .rule = "The ranks must not drop the same units",
                .compared = "the state of the random generators where a model with dropout begins",
                .mistake = "one seed on all ranks, as Trainer and Lightning set: a remark",
                .cure = "add the rank to the seed, once the model is made",
                .not_seen = "dropout as a function",
                .judge = random_streams_differ},
      Invariant{
          .name = "forward.runs_through_the_wrapper",
          .rule = "A training's forward must run through DistributedDataParallel",
          .compared = "how each backward reached its parameters, and what averaged them",
          .mistake = "ddp.module(x), a method of the module, a forgotten wrapper",
          .cure = "call the wrapped model itself; make one forward of what needs several",
          .not_seen = "averages that a recorder does not see, unless parameters stay the same",
          .judge = forwards_run_through_the_wrapper},
      Invariant{.name = "gradients.are_the_same",
                .rule = "After a synchronised backward all ranks must hold the same gradients",
                .compared = "gradients after each synchronised backward, as bits",
                .mistake = "a parameter that was unfrozen or added after the model was wrapped",
                .cure = "change the model first, wrap it last",
                .not_seen = "whether the average is right",
                .judge = gradients_are_the_same},
      Invariant{
          .name = "gradients.are_averages",
          .rule =
              "An update must take the average of the ranks' gradients, whose terms count alike",
          .compared = "some values of gradients before and behind a communication hook or an "
                      "average by hand; norms before and behind an all-reduce of averages; what a "
                      "term of each loss counts",
          .mistake = "a hook that sums and does not divide; clipping before unscale_; a loss that "
                     "each rank divides by its own number of tokens: a remark",
          .cure = "read the cause of the finding",
          .not_seen = "an average that is wrong in another way",
          .judge = gradients_are_averages},
      Invariant{.name = "gradients.differ_in_no_sync",
                .rule = "Within no_sync each rank must hold the gradients of its own batch",
                .compared = "gradients within no_sync",
                .mistake = "all ranks train on one batch",
                .cure = "split the data over the ranks",
                .judge = gradients_differ_in_no_sync},
      Invariant{.name = "gradients.reach_every_parameter",
                .rule = "Every parameter that requires a gradient must get one in some backward",
                .compared = "which parameters ever get a gradient",
                .mistake = "a layer that no forward uses: a remark where the program expects one",
                .cure = "remove or freeze it",
                .judge = gradients_reach_every_parameter},
      Invariant{.name = "optimizer.owns_parameters_once",
                .rule = "Every parameter must belong to one optimizer",
                .compared = "the parameters of each optimizer beside those that get gradients",
                .mistake = "a layer that was replaced after the optimizer was made",
                .cure = "make the optimizer last, from the model's parameters",
                .judge = optimizers_own_parameters_once},
      Invariant{.name = "optimizer.has_one_setting",
                .rule = "The optimizers of all ranks must have the same hyper-parameters",
                .compared = "the hyper-parameters of each update",
                .mistake = "a scheduler that steps on rank 0 alone",
                .cure = "step it on every rank",
                .judge = hyper_parameters_are_the_same},
      Invariant{.name = "optimizer.has_one_state",
                .rule = "The optimizers of all ranks must have the same state",
                .compared = "momentum and what else an optimizer keeps",
                .mistake = "a state that was restored on rank 0 alone",
                .cure = "load it on every rank",
                .not_seen = "a state that is divided over the ranks, as by ZeRO, Muon and Shampoo",
                .judge = optimizer_state_is_the_same},
      Invariant{
          .name = "parameters.are_the_same",
          .rule =
              "All ranks must hold the same parameters after construction and after every update",
          .compared = "parameters after construction and after each update, as bits",
          .mistake = "a checkpoint loaded on rank 0 after wrapping",
          .cure = "load it before, or everywhere",
          .not_seen = "parameters that are divided over the ranks: compare them with one process",
          .judge = parameters_are_the_same},
      Invariant{.name = "buffers.follow_rank_zero",
                .rule = "All ranks must hold rank 0's buffers after a broadcast",
                .compared = "buffers after each broadcast",
                .mistake = "a buffer that a layer replaced by its own",
                .cure = "write into the buffer",
                .judge = buffers_follow_rank_zero},
      Invariant{.name = "values.stay_finite",
                .rule = "Parameters, buffers and optimizers must hold finite numbers",
                .compared = "parameters, buffers and optimizer state",
                .mistake = "a learning rate that is too large",
                .cure = "read what came first: gradients, say",
                .judge = values_stay_finite},
      Invariant{.name = "data.is_that_of_one_process",
                .rule = "The ranks' batches must together be the batches of one process",
                .compared = "what the ranks drew together after each batch, beside one process",
                .mistake = "a sampler with another seed; repeats that pad the last batch",
                .cure = "let both draw the same global batches",
                .not_seen = "passes that only evaluate",
                .judge_against = batches_are_those_of_one_process},
      Invariant{
          .name = "values.follow_one_process",
          .rule = "The ranks must hold what one process holds, as far as rounding allows",
          .compared =
              "parameters, buffers and gradients beside one process, within measured rounding",
          .mistake = "a sum in place of the average; accumulated losses that are not divided",
          .cure = "read the pattern and the cause of the finding",
          .not_seen = "models with BatchNorm or dropout, and programs without a seed",
          .judge_against = values_follow_one_process},
      Invariant{
          .name = "data.order_continues",
          .rule = "A training that resumes must not draw the order of an epoch that it has made",
          .compared = "the orders of whole passes beside those of the run before, up to the step "
                      "at which this one resumes it",
          .mistake = "set_epoch that counts from 0 again",
          .cure = "call set_epoch with the epoch of the whole training",
          .not_seen = "cut passes",
          .judge_after = order_continues},
      Invariant{.name = "optimizer.continues",
                .rule = "A training that resumes must begin with the state and the settings of its "
                        "optimizers that the run before had",
                .compared = "the state and the settings of optimizers beside those of the run "
                            "before, at the step at which this one resumes it",
                .mistake = "a checkpoint of the model alone; a scheduler that begins anew",
                .cure = "save and load the state_dicts of optimizers and schedulers too",
                .not_seen = "the state of a GradScaler, and random generators",
                .judge_after = optimizers_continue},
  };
  return kAll;
}

std::span<const Invariant> invariants() {
  const auto all = all_invariants();
  const auto end = std::find_if(all.begin(), all.end(), [](auto& is) { return !is.judge; });
  return all.first(static_cast<size_t>(end - all.begin()));
}

}  // namespace lockstep::recorded
