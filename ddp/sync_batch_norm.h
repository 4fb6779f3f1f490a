#pragma once

#include "ddp/sync_batch_norm/over_ranks.h"

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
  // are averages over all batches so far, equally weighted.
  std::optional<double> momentum = 0.1;

  // There are a weight and a bias for each channel.
  bool affine = true;

  // The layer keeps running statistics. Without them evaluation uses the statistics of its
  // own batch, that of this rank alone.
  bool track_running_stats = true;

  // The ranks whose batches are normalised as one. Required in training only: without a group a
  // forward in training throws, it is not a world of one.
  c10::intrusive_ptr<c10d::ProcessGroup> process_group;

  // Longest wait for one collective, positive. Unset: the timeout of the group's backend, or half
  // an hour if the backend reports none.
  std::optional<std::chrono::milliseconds> timeout;
};

// The module. Parameters weight and bias and buffers running_mean, running_var and
// num_batches_tracked are those of LibTorch's BatchNorm, and so are their names in a saved state.
class SyncBatchNormImpl : public torch::nn::Cloneable<SyncBatchNormImpl>, public LayerOverRanks {
 public:
  // Local. Throws UsageError for options outside their range or a group that cannot be used.
  explicit SyncBatchNormImpl(SyncBatchNormOptions options);

  // A replacement for a torch::nn::BatchNorm1d, 2d or 3d: with its options and mode, sharing its
  // tensors, without a group yet. For convert_sync_batchnorm(). Local.
  static std::shared_ptr<SyncBatchNormImpl> in_place_of(
      std::shared_ptr<torch::nn::Module> batch_norm);

  // The layer that it replaces, which holds the same tensors; null if it was not converted. A
  // clone's is a clone.
  std::shared_ptr<torch::nn::Module> stands_for() const { return stands_for_; }

  // As in LibTorch's BatchNorm: new tensors, all values reset, or only the running statistics
  // reset.
  void reset() override;
  void reset_parameters();
  void reset_running_stats();

  // For convert_sync_batchnorm().
  BatchNormSettings settings() const override;
  void train_over(c10::intrusive_ptr<c10d::ProcessGroup> group,
                  std::optional<std::chrono::milliseconds> timeout, std::string name) override;

  // input: [samples, num_features, ...] with any axes after the channels, on the layer's device,
  // CPU or CUDA; Half, BFloat16, Float or Double, in training whatever the dtype of weight and
  // bias; any strides. The number of samples and the sizes after the channels may differ between
  // ranks and may be 0. The output has the input's shape and dtype.
  //
  // In training: Collective, blocks, and so does the backward pass on every rank if the input of
  // any rank needs a gradient; ranks must call the layers of a model in the same order. Running
  // statistics move towards the whole batch's average and unbiased variance, to the same bits on
  // every rank. A batch that is empty on all ranks changes nothing. Throws DisagreementError, with
  // the same sentence on every rank and before anything is merged, if inputs or options do not
  // match or all ranks together hold one value per channel; UsageError without a group;
  // CommunicationError, also if a rank is in evaluation mode or skips the layer. A world of one
  // takes the same path.
  //
  // In evaluation: Local, needs no group. Throws UsageError for an input that does not fit.
  at::Tensor forward(const at::Tensor& input);

  // "lockstep::SyncBatchNorm(4, eps=1e-05, momentum=0.1, affine=true, track_running_stats=true)"
  void pretty_print(std::ostream& stream) const override;

  SyncBatchNormOptions options;  // from construction or conversion; must not be changed
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
