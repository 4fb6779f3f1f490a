#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <chrono>
#include <memory>
#include <optional>

namespace lockstep {

// Makes every BatchNorm layer of a model train by the statistics of all ranks' batches, as
// torch.nn.SyncBatchNorm.convert_sync_batchnorm does; docs/semantics.md 3 says how they differ.
//
//   convert_sync_batchnorm(net, group);
//   DistributedDataParallel ddp(net, {.process_group = group});
//
// Layers of batch_norm.h are switched, wherever they are. A torch::nn::BatchNorm1d, 2d or 3d that
// is an element of a Sequential, ModuleList or ModuleDict is replaced there by a SyncBatchNorm with
// the same tensors, mode and options; a layer in several places is replaced by one SyncBatchNorm in
// all of them. Optimizers and the keys of a saved state stay valid; a handle that the caller holds
// still points to the old layer. Each layer takes its path in the model as its name, in errors and
// when ranks compare what they are about to do.
//
// Layers that were converted before are rebound to this group. A SyncBatchNorm that was constructed
// as one is left unchanged, with or without a group.
//
// Returns the model, or the SyncBatchNorm in its place if the model itself is a
// torch::nn::BatchNorm1d, 2d or 3d. Every rank must convert alike; nothing is sent. `timeout` is
// that of SyncBatchNormOptions. Local.
//
// Throws UsageError, before anything has changed and naming every layer by its path, if a layer of
// batch normalisation cannot be replaced: a member of a user's class, whose pointer cannot be
// changed from outside; a class derived from LibTorch's; any other module with running_mean,
// running_var and num_batches_tracked except InstanceNorm. Also if the model or the group is null,
// the group cannot be used, or a layer's options are outside the range of SyncBatchNormOptions.
std::shared_ptr<torch::nn::Module> convert_sync_batchnorm(
    const std::shared_ptr<torch::nn::Module>& model, c10::intrusive_ptr<c10d::ProcessGroup> group,
    std::optional<std::chrono::milliseconds> timeout = std::nullopt);

// Undoes the conversion: layers of batch_norm.h are switched off, and each converted
// torch::nn::BatchNorm1d, 2d or 3d is the original object again, with the current tensors and mode.
// Returns the model, or the original layer if the model itself was converted. Local. Throws
// UsageError, before anything has changed, if the model is null, or if it has a SyncBatchNorm that
// was not converted or cannot be replaced where it is.
std::shared_ptr<torch::nn::Module> revert_sync_batchnorm(
    const std::shared_ptr<torch::nn::Module>& model);

// The same for module holders.
template <class M>
std::shared_ptr<torch::nn::Module> convert_sync_batchnorm(
    const torch::nn::ModuleHolder<M>& model, c10::intrusive_ptr<c10d::ProcessGroup> group,
    std::optional<std::chrono::milliseconds> timeout = std::nullopt) {
  return convert_sync_batchnorm(std::shared_ptr<torch::nn::Module>(model.ptr()), std::move(group),
                                timeout);
}

template <class M>
std::shared_ptr<torch::nn::Module> revert_sync_batchnorm(const torch::nn::ModuleHolder<M>& model) {
  return revert_sync_batchnorm(std::shared_ptr<torch::nn::Module>(model.ptr()));
}

}  // namespace lockstep
