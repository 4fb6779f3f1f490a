#include "harness/invariants/explanations.h"

#include <array>

namespace lockstep::recorded {

std::span<const InvariantExplanation> invariant_explanations() {
  static constexpr std::array kAll{
      InvariantExplanation{
          "run.is_recorded_whole", "how each rank's history ends, and its process group",
          "a rank threw, or trained alone since the launcher's variables were missing",
          "read the exception of the rank that is named: the others waited for it",
          "what ended a rank that left no ending, such as SIGKILL"},
      InvariantExplanation{
          "collectives.have_one_order",
          "the collectives of each group, number by number, over the ranks",
          "an all-reduce for the log on rank 0 alone",
          "let every rank of the group issue it, in the same order",
          "collectives that go past torch.distributed, and those within a backward of "
          "PyTorch's DistributedDataParallel"},
      InvariantExplanation{
          "run.has_one_length",
          "synchronised backwards and updates, one after the other, over the ranks",
          "early stopping by a rank's own loss; an update that one rank skips",
          "let all ranks decide together, from a loss that was reduced", ""},
      InvariantExplanation{
          "data.is_one_dataset",
          "length, content, seed, epoch and number of ranks of what samplers split",
          "random_split with another seed on each rank; files that one rank lacks",
          "seed what makes the dataset, the same on every rank",
          "datasets without a "
          "sampler that splits them"},
      InvariantExplanation{
          "data.is_partitioned",
          "the samples of each batch and pass, what loaders handed out, and the losses",
          "shuffle=True, or WeightedRandomSampler, in place of a DistributedSampler",
          "a sampler that knows the ranks, or draws of each rank's own",
          "what a program reads without a loader, but by its losses"},
      InvariantExplanation{"data.order_changes",
                           "each whole pass of a training with the last whole one of its loader",
                           "sampler.set_epoch forgotten, or a loader made anew in each epoch",
                           "call sampler.set_epoch(epoch) before each pass",
                           "passes that were cut short"},
      InvariantExplanation{"data.evaluates_each_sample_once",
                           "the samples of passes without a backward, and reductions after them",
                           "a metric averaged over the samples with which DistributedSampler pads",
                           "drop the padding before the reduction, or split without it",
                           "whether a program drops it itself: then it is a remark"},
      InvariantExplanation{"random.streams_differ",
                           "the state of the random generators where a model with dropout begins",
                           "one seed on all ranks, as Trainer and Lightning set: a remark",
                           "add the rank to the seed, once the model is made",
                           "dropout as a function"},
      InvariantExplanation{
          "forward.runs_through_the_wrapper",
          "how each backward reached its parameters, and what averaged them",
          "ddp.module(x), a method of the module, a forgotten wrapper",
          "call the wrapped model itself; make one forward of what needs several",
          "averages that a recorder does not see, unless parameters stay the same"},
      InvariantExplanation{"gradients.are_the_same",
                           "gradients after each synchronised backward, as bits",
                           "a parameter that was unfrozen or added after the model was wrapped",
                           "change the model first, wrap it last", "whether the average is right"},
      InvariantExplanation{
          "gradients.are_averages",
          "some values of gradients before and behind a communication hook or an average by hand; "
          "norms before and behind an all-reduce of averages; what a term of each loss counts",
          "a hook that sums and does not divide; clipping before unscale_; a loss that each rank "
          "divides by its own number of tokens: a remark",
          "read the cause of the finding", "an average that is wrong in another way"},
      InvariantExplanation{"gradients.differ_in_no_sync", "gradients within no_sync",
                           "all ranks train on one batch", "split the data over the ranks", ""},
      InvariantExplanation{"gradients.reach_every_parameter",
                           "which parameters ever get a gradient",
                           "a layer that no forward uses: a remark where the program expects one",
                           "remove or freeze it", ""},
      InvariantExplanation{"optimizer.owns_parameters_once",
                           "the parameters of each optimizer beside those that get gradients",
                           "a layer that was replaced after the optimizer was made",
                           "make the optimizer last, from the model's parameters", ""},
      InvariantExplanation{"optimizer.has_one_setting", "the hyper-parameters of each update",
                           "a scheduler that steps on rank 0 alone", "step it on every rank", ""},
      InvariantExplanation{"optimizer.has_one_state", "momentum and what else an optimizer keeps",
                           "a state that was restored on rank 0 alone", "load it on every rank",
                           "a state that is divided over the ranks, as by ZeRO, Muon and Shampoo"},
      InvariantExplanation{
          "parameters.are_the_same", "parameters after construction and after each update, as bits",
          "a checkpoint loaded on rank 0 after wrapping", "load it before, or everywhere",
          "parameters that are divided over the ranks: compare them with one process"},
      InvariantExplanation{"buffers.follow_rank_zero", "buffers after each broadcast",
                           "a buffer that a layer replaced by its own", "write into the buffer",
                           ""},
      InvariantExplanation{"values.stay_finite", "parameters, buffers and optimizer state",
                           "a learning rate that is too large",
                           "read what came first: gradients, say", ""},
      InvariantExplanation{"data.is_that_of_one_process",
                           "what the ranks drew together after each batch, beside one process",
                           "a sampler with another seed; repeats that pad the last batch",
                           "let both draw the same global batches", "passes that only evaluate"},
      InvariantExplanation{"values.follow_one_process",
                           "parameters, buffers and gradients beside one process, within measured "
                           "rounding",
                           "a sum in place of the average; accumulated losses that are not divided",
                           "read the pattern and the cause of the finding",
                           "models with BatchNorm or dropout, and programs without a seed"},
      InvariantExplanation{
          "data.order_continues",
          "the orders of whole passes beside those of the run before, up to the step "
          "at which this one resumes it",
          "set_epoch that counts from 0 again",
          "call set_epoch with the epoch of the whole training", "cut passes"},
      InvariantExplanation{
          "optimizer.continues",
          "the state and the settings of optimizers beside those of the run before, at the "
          "step at which this one resumes it",
          "a checkpoint of the model alone; a scheduler that begins anew",
          "save and load the state_dicts of optimizers and schedulers too",
          "the state of a GradScaler, and random generators"},
  };
  return kAll;
}

}  // namespace lockstep::recorded
