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
// is an element of a Sequential, ModuleList or ModuleDict is replaced there by a SyncBatchNorm that
// has the very same tensors, mode and options; one that hangs in several places by one in all of
// them. An optimizer, and keys of a saved state, stay as they are; a handle of one's own goes on
// naming the old layer. Each layer is called by its path in the model, in sentences and when ranks
// compare what they are about to do.
//
// What was converted before goes over to this group. A SyncBatchNorm that was made as one is left
// alone, with the group it has or has not.
//
// Returns the model, or the SyncBatchNorm in its place if the model itself is a
// torch::nn::BatchNorm1d, 2d or 3d. Ranks convert alike; nothing is sent. `timeout` is that of
// SyncBatchNormOptions. Local.
//
// Throws UsageError, before anything has changed and naming every layer by its path, if there is a
// layer of batch normalisation that cannot be reached: a member of a user's class, whose pointer
// nobody can change; a class derived from LibTorch's; any other module with running_mean,
// running_var and num_batches_tracked but InstanceNorm. Also if the model or the group is null, the
// group cannot be used, or a layer's options are outside the range of SyncBatchNormOptions.
std::shared_ptr<torch::nn::Module> convert_sync_batchnorm(
    const std::shared_ptr<torch::nn::Module>& model, c10::intrusive_ptr<c10d::ProcessGroup> group,
    std::optional<std::chrono::milliseconds> timeout = std::nullopt);

// The way back: layers of batch_norm.h are switched off, and what was a torch::nn::BatchNorm1d, 2d
// or 3d is the same object again, with the tensors and the mode of now. Returns the model, or the
// layer that it was. Local. Throws UsageError, before anything has changed, if the model is null,
// or if it has a SyncBatchNorm that never was one, or that hangs where it cannot be replaced.
std::shared_ptr<torch::nn::Module> revert_sync_batchnorm(
    const std::shared_ptr<torch::nn::Module>& model);

// The same by the handle.
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
