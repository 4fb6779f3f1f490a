#pragma once

#include "ddp/batch_norm/over_ranks.h"

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/nn/cloneable.h>
#include <torch/nn/pimpl.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <ostream>

namespace lockstep {

struct BatchNormParts;

// Batch normalisation over the batches of all ranks of a group, as if one process held them
// concatenated. docs/semantics.md 3 has the rules and where they differ from PyTorch's.
//
// Names and defaults are those of torch.nn.SyncBatchNorm. Every value but group and timeout must be
// equal on all ranks, which each forward in training checks.
struct SyncBatchNormOptions {
  // Channels of the input, at least 1. Required.
  std::int64_t num_features = 0;

  // Added to the variance before its root is taken; finite, at least 0.
  double eps = 1e-5;

  // The weight of a new batch in the running statistics, 0 to 1. nullopt: the running statistics
  // are averages over all batches so far, each of which weighs alike.
  std::optional<double> momentum = 0.1;

  // Whether there are a weight and a bias for each channel.
  bool affine = true;

  // Whether there are running statistics. Without them evaluation uses the statistics of its own
  // batch, of this rank alone.
  bool track_running_stats = true;

  // The ranks whose batches make up the batch. Needed in training only: there is no silent world of
  // one.
  c10::intrusive_ptr<c10d::ProcessGroup> process_group;

  // Longest wait for one collective, positive. Unset: the timeout of the group's backend, or five
  // minutes if the backend does not tell.
  std::optional<std::chrono::milliseconds> timeout;
};

// The module. Parameters weight and bias and buffers running_mean, running_var and
// num_batches_tracked are those of LibTorch's BatchNorm, and so are their names in a saved state.
class SyncBatchNormImpl : public torch::nn::Cloneable<SyncBatchNormImpl>, public LayerOverRanks {
 public:
  // Local. Throws UsageError for options outside their range or a group that cannot be used.
  explicit SyncBatchNormImpl(SyncBatchNormOptions options);

  // In place of a torch::nn::BatchNorm1d, 2d or 3d: with its options and mode and the very same
  // tensors, without a group yet. For convert_sync_batchnorm(). Local.
  static std::shared_ptr<SyncBatchNormImpl> in_place_of(
      std::shared_ptr<torch::nn::Module> batch_norm);

  // What it stands in place of, which holds the same tensors; null where it never was one. A
  // clone's is a clone.
  std::shared_ptr<torch::nn::Module> stands_for() const { return stands_for_; }

  // As in LibTorch's BatchNorm: anew, to zeros and ones, or the running statistics alone.
  void reset() override;
  void reset_parameters();
  void reset_running_stats();

  // For convert_sync_batchnorm().
  BatchNormSettings settings() const override;
  void train_over(c10::intrusive_ptr<c10d::ProcessGroup> group,
                  std::optional<std::chrono::milliseconds> timeout, std::string name) override;

  // input: [samples, num_features, ...] with any axes behind the channels, on the layer's device,
  // CPU or CUDA; Half, BFloat16, Float or Double, in training whatever the dtype of weight and
  // bias; of any strides. Number of samples and sizes behind the channels may differ between ranks,
  // and any may be none. The output has the input's shape and dtype.
  //
  // In training: Collective, blocks, and so does the backward pass on every rank if the input of
  // any rank needs a gradient; ranks call the layers of a model in one order. Running statistics
  // move towards the whole batch's average and unbiased variance, by the same bits on every rank. A
  // batch that is empty on all ranks changes nothing. Throws DisagreementError, with one sentence
  // on every rank and before anything is merged, if inputs or options do not fit together or
  // the ranks hold one value a channel between them; UsageError without a group;
  // CommunicationError, also where a rank is in evaluation mode or leaves the layer out. A world of
  // one exchanges with itself.
  //
  // In evaluation: Local, needs no group. Throws UsageError for an input that does not fit.
  at::Tensor forward(const at::Tensor& input);

  // "lockstep::SyncBatchNorm(4, eps=1e-05, momentum=0.1, affine=true, track_running_stats=true)"
  void pretty_print(std::ostream& stream) const override;

  SyncBatchNormOptions options;  // those of the construction, or conversion; not to be changed
  at::Tensor weight, bias;       // undefined without affine
  at::Tensor running_mean, running_var, num_batches_tracked;  // undefined unless tracked

 private:
  SyncBatchNormImpl(std::shared_ptr<torch::nn::Module> batch_norm, const BatchNormParts& parts);
  void share(const BatchNormTensors& tensors);

  std::shared_ptr<torch::nn::Module> stands_for_;
};

// The handle: SyncBatchNorm norm({.num_features = 4, .process_group = group}).
class SyncBatchNorm : public torch::nn::ModuleHolder<SyncBatchNormImpl> {
 public:
  using torch::nn::ModuleHolder<SyncBatchNormImpl>::ModuleHolder;
  using Impl = SyncBatchNormImpl;

  explicit SyncBatchNorm(SyncBatchNormOptions options)
      : ModuleHolder(std::make_shared<SyncBatchNormImpl>(std::move(options))) {}
};

}  // namespace lockstep
