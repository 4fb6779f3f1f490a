#include "harness/invariants/symptoms.h"

#include <array>

namespace lockstep::recorded {

std::span<const Symptom> symptoms() {
  static constexpr std::array kAll{
      Symptom{"inplace, in-place, modified by an inplace operation, version",
              "run.is_recorded_whole",
              "A second forward of a model broadcasts its buffers in place, which the graph of the "
              "first had saved: one forward, or broadcast_buffers=False."},
      Symptom{"marked as ready twice, ready only once, reentrant, checkpointing",
              "run.is_recorded_whole",
              "A parameter gets its gradient twice in one backward: use_reentrant=False, or "
              "static_graph=True."},
      Symptom{"unused, find_unused_parameters, did not receive grad, finished reduction",
              "gradients.reach_every_parameter",
              "Parameters of the forward take no part in the loss on some rank."},
      Symptom{"Connection closed by peer, connection reset, broken pipe, socket",
              "run.is_recorded_whole",
              "A peer ended first: the finding names the rank that did, and where it was."},
      Symptom{"timeout, timed out, hang, hangs, stuck, deadlock, watchdog",
              "collectives.have_one_order",
              "A rank waits in a collective that a peer never issues: record the run, end it, and "
              "judge shows who waits where."},
      Symptom{"barrier, allreduce, collective, order", "collectives.have_one_order",
              "Every rank of a group must issue the same collectives in the same order."},
      Symptom{"IterableDataset, stream, streaming, webdataset", "data.is_partitioned",
              "Each rank and each worker must read samples of its own; equal batches and equal "
              "losses are found."},
      Symptom{
          "padding, padded, pads, drop_last, tail, uneven batches",
          "data.evaluates_each_sample_once",
          "A sampler repeats samples so that all ranks draw as many; drop_last leaves some out."},
      Symptom{"metric, accuracy, evaluation, validation, perplexity",
              "data.evaluates_each_sample_once",
              "A metric that is averaged over the ranks counts padded samples twice."},
      Symptom{"early stop, early stopping, patience, break", "run.has_one_length",
              "All ranks must stop after the same update: decide from a loss that was reduced."},
      Symptom{
          "scheduler, learning rate, warmup, lr", "optimizer.has_one_setting",
          "Schedulers must step on every rank; a rate that is scaled with the ranks shows beside "
          "one process."},
      Symptom{"spawn, fork, mp.spawn, multiprocessing", "docs/judge.md",
              "Call lockstep_recorder.start() in each process that spawn starts."},
      Symptom{
          "GAN, discriminator, generator, two models, two losses", "run.is_recorded_whole",
          "Two forwards before one backward, and two optimizers: each model has its own wrapper."},
      Symptom{"LoRA, adapter, PEFT, fine-tuning", "gradients.are_the_same",
              "What is added or unfrozen after wrapping is not averaged: change first, wrap last."},
      Symptom{"frozen, freeze, unfreeze, unfrozen, requires_grad", "gradients.are_the_same",
              "DistributedDataParallel averages what required a gradient as it was built."},
      Symptom{"EMA, exponential moving average, averaged model, swa", "parameters.are_the_same",
              "Weights that are swapped for an evaluation and put back are a remark; loaded on one "
              "rank they are a finding."},
      Symptom{"SAM, sharpness", "parameters.are_the_same",
              "Weights that are moved for a forward and back at the update are a remark."},
      Symptom{"bypass, module, past the wrapper, ddp.module, method",
              "forward.runs_through_the_wrapper",
              "A forward of the module itself, or of a part of it, averages nothing."},
      Symptom{
          "forgot DistributedDataParallel, not wrapped, no wrapper, by hand, horovod, deepspeed",
          "forward.runs_through_the_wrapper",
          "What no wrapper and no collective averages is trained on each rank alone."},
      Symptom{"no_sync, accumulation, accumulate, micro-batch", "gradients.differ_in_no_sync",
              "The last backward of a step must be outside no_sync, and losses be divided by their "
              "number."},
      Symptom{"clip, clipping, clip_grad_norm, grad norm", "values.follow_one_process",
              "Clip after the last backward of a step, which averages, and not within no_sync."},
      Symptom{
          "GradScaler, scaler, skipped step, overflow, amp, autocast, fp16", "run.has_one_length",
          "A scaler that skips an update on one rank alone shows as that rank's missing update."},
      Symptom{"NaN, inf, infinity, diverges, explodes", "values.stay_finite",
              "The first tensor that is not finite is named, with what came before it."},
      Symptom{"sampler, shuffle, DistributedSampler, WeightedRandomSampler, imbalanced",
              "data.is_partitioned",
              "A sampler that does not know the ranks lets all of them draw the same samples."},
      Symptom{"set_epoch, same order, epoch, order", "data.order_changes",
              "sampler.set_epoch(epoch) before each pass, also where a batch was looked at first."},
      Symptom{"random_split, split, leakage, train test", "data.is_one_dataset",
              "A split without a seed is another one on each rank."},
      Symptom{
          "seed, reproducible, dropout, random", "random.streams_differ",
          "One seed on all ranks lets them drop the same units: a remark, which --strict fails."},
      Symptom{"worker, workers, num_workers, prefetch, augmentation", "data.is_partitioned",
              "What workers hand out is compared; numpy's generator is the same in every worker "
              "unless it is seeded there."},
      Symptom{"BatchNorm, SyncBatchNorm, running mean, buffers, statistics",
              "buffers.follow_rank_zero",
              "BatchNorm takes the statistics of a rank's own batch; its buffers are rank 0's."},
      Symptom{"checkpoint, load_state_dict, resume, resumed, restore", "parameters.are_the_same",
              "Load on every rank, before wrapping; restore optimizer, scheduler and epoch too."},
      Symptom{"momentum, optimizer state, Adam", "optimizer.has_one_state",
              "A state that was restored on one rank alone parts the ranks at the next update."},
      Symptom{"optimizer, param group, replaced layer, moved model",
              "optimizer.owns_parameters_once",
              "Make the optimizer last: one that is older than a layer updates the old one."},
      Symptom{"zero_grad, accumulates, never cleared", "gradients.are_the_same",
              "Gradients that nobody clears are a remark."},
      Symptom{
          "FSDP, fully_shard, sharded, FullyShardedDataParallel, HSDP", "parameters.are_the_same",
          "Parts of parameters are compared with equal parts, and with one process (--against)."},
      Symptom{"tensor parallel, DTensor, pipeline, model parallel", "parameters.are_the_same",
              "Parts of parameters are compared with equal parts; batches are shared on purpose."},
      Symptom{"ZeRO, ZeroRedundancyOptimizer, Muon, Shampoo, divided state",
              "optimizer.has_one_state",
              "A state of which each rank has its own part is not compared; the parameters are."},
      Symptom{"mean of means, tokens, labels, ignore_index, loss average",
              "values.follow_one_process",
              "An average over the ranks weights them alike, however many terms each has."},
      Symptom{"sum, world size, too large gradients, scaled loss, Trainer",
              "values.follow_one_process",
              "A factor of world_size or of its inverse beside one process has a name."},
      Symptom{"torch.compile, dynamo, inductor, graph break", "docs/judge.md",
              "Compiled models are recorded, within the wrapper and around it."},
      Symptom{"join, uneven inputs, Join", "docs/judge.md",
              "Ranks in a join may make unequally many updates; they are aligned after it."},
      Symptom{"slow, straggler, waiting, overlap, bandwidth", "docs/judge.md#trace",
              "`trace` says which rank waited for which, and for how long."},
      Symptom{"same loss, equal losses, identical batches", "data.is_partitioned",
              "Losses that are equal on all ranks in every backward: all train on one batch."},
      Symptom{"evaluation mode, eval, train mode, training mode",
              "forward.runs_through_the_wrapper",
              "A model in evaluation mode on some ranks alone is found by its backwards."},
      Symptom{"rank 0 only, logging, print, tensorboard, wandb", "collectives.have_one_order",
              "What rank 0 does alone must hold no collective, a forward of the wrapper included."},
      Symptom{"RANK, WORLD_SIZE, torchrun, launcher, init_process_group, MASTER_ADDR",
              "run.is_recorded_whole",
              "Each process trains alone where the launcher's variables are missing."},
      Symptom{"NCCL, gloo, backend", "docs/gpu.md",
              "NCCL error: set NCCL_DEBUG=INFO; a rank that hangs is found by its collectives."},
      Symptom{"out of memory, OOM, killed", "run.is_recorded_whole",
              "A rank that the system killed left no ending, and its peers waited for it."},
      Symptom{"static_graph, retain_graph, second backward, double backward",
              "forward.runs_through_the_wrapper",
              "A further backward through one forward is averaged once."},
      Symptom{"false alarm, allow, ignore, suppress, strict, remark", "docs/judge.md",
              "`judge --allow INVARIANT` makes an invariant's findings remarks; --strict lets "
              "remarks fail."},
  };
  return kAll;
}

}  // namespace lockstep::recorded
