#include "ddp/sync_batch_norm.h"

#include "ddp/errors.h"
#include "ddp/sync_batch_norm/parts.h"

#include <torch/nn/functional/batchnorm.h>
#include <torch/torch.h>

#include <utility>

namespace lockstep {

SyncBatchNormImpl::SyncBatchNormImpl(SyncBatchNormOptions given)
    : torch::nn::Cloneable<SyncBatchNormImpl>("SyncBatchNorm"), options(std::move(given)) {
  if (const auto validation_error = validation_error_in(settings()))
    throw UsageError("SyncBatchNorm: " + *validation_error);
  if (options.process_group) over_ranks_.emplace(options.process_group, options.timeout);
  SyncBatchNormImpl::reset();
}

SyncBatchNormImpl::SyncBatchNormImpl(std::shared_ptr<torch::nn::Module> batch_norm,
                                     const BatchNormParts& parts)
    : torch::nn::Cloneable<SyncBatchNormImpl>("SyncBatchNorm"),
      options{.num_features = parts.settings.num_features,
              .eps = parts.settings.eps,
              .momentum = parts.settings.momentum,
              .affine = parts.settings.affine,
              .track_running_stats = parts.settings.track_running_stats},
      stands_for_(std::move(batch_norm)) {
  share(parts.tensors);
  train(stands_for_->is_training());
}

std::shared_ptr<SyncBatchNormImpl> SyncBatchNormImpl::in_place_of(
    std::shared_ptr<torch::nn::Module> batch_norm) {
  const auto parts = parts_of(*batch_norm);
  TORCH_CHECK(parts, "SyncBatchNorm can stand for a torch::nn::BatchNorm1d, 2d or 3d");
  return std::shared_ptr<SyncBatchNormImpl>(new SyncBatchNormImpl(std::move(batch_norm), *parts));
}

BatchNormSettings SyncBatchNormImpl::settings() const {
  return {.num_features = options.num_features,
          .eps = options.eps,
          .momentum = options.momentum,
          .affine = options.affine,
          .track_running_stats = options.track_running_stats};
}

void SyncBatchNormImpl::train_over(c10::intrusive_ptr<c10d::ProcessGroup> group,
                                   std::optional<std::chrono::milliseconds> timeout,
                                   std::string name) {
  LayerOverRanks::train_over(group, timeout, std::move(name));
  options.process_group = std::move(group);
  options.timeout = timeout;
}

void SyncBatchNormImpl::share(const BatchNormTensors& tensors) {
  const auto needs_gradient = [](const at::Tensor& tensor) {
    return tensor.defined() && tensor.requires_grad();
  };
  weight = register_parameter("weight", tensors.weight, needs_gradient(tensors.weight));
  bias = register_parameter("bias", tensors.bias, needs_gradient(tensors.bias));
  running_mean = register_buffer("running_mean", tensors.running_mean);
  running_var = register_buffer("running_var", tensors.running_var);
  num_batches_tracked = register_buffer("num_batches_tracked", tensors.num_batches_tracked);
}

void SyncBatchNormImpl::reset() {
  // clone() calls this for new tensors; the clone replaces a clone of the layer.
  if (stands_for_) {
    stands_for_ = stands_for_->clone();
    return share(parts_of(*stands_for_)->tensors);
  }
  const auto one_each = [&](bool wanted) {
    return wanted ? torch::zeros({options.num_features}) : at::Tensor();
  };
  weight = register_parameter("weight", one_each(options.affine), options.affine);
  bias = register_parameter("bias", one_each(options.affine), options.affine);
  running_mean = register_buffer("running_mean", one_each(options.track_running_stats));
  running_var = register_buffer("running_var", one_each(options.track_running_stats));
  num_batches_tracked = register_buffer(
      "num_batches_tracked",
      options.track_running_stats ? torch::tensor(0, torch::dtype(at::kLong)) : at::Tensor());
  reset_parameters();
}

void SyncBatchNormImpl::reset_parameters() {
  reset_running_stats();
  if (!options.affine) return;
  const torch::NoGradGuard no_grad;
  weight.fill_(1);
  bias.zero_();
}

void SyncBatchNormImpl::reset_running_stats() {
  if (!options.track_running_stats) return;
  running_mean.zero_();
  running_var.fill_(1);
  num_batches_tracked.zero_();
}

at::Tensor SyncBatchNormImpl::forward(const at::Tensor& input) {
  if (is_training()) {
    if (!over_ranks_) {
      throw UsageError(
          "SyncBatchNorm: process_group is null; in training expected the group of the ranks that "
          "train together");
    }
    return over_ranks_->forward(input, settings(),
                                {weight, bias, running_mean, running_var, num_batches_tracked});
  }
  if (const auto validation_error = validation_error_in(input, settings()))
    throw UsageError(*validation_error);
  // Without a wider tensor LibTorch rounds a half batch's average and deviation to half.
  const bool is_alone = !options.affine && !options.track_running_stats;
  const bool is_half = input.scalar_type() == at::kHalf || input.scalar_type() == at::kBFloat16;
  const at::Tensor values = is_alone && is_half ? input.to(at::kFloat) : input;
  return torch::nn::functional::batch_norm(values, running_mean, running_var,
                                           torch::nn::functional::BatchNormFuncOptions()
                                               .weight(weight)
                                               .bias(bias)
                                               .training(!options.track_running_stats)
                                               .eps(options.eps))
      .to(input.scalar_type());
}

void SyncBatchNormImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "lockstep::SyncBatchNorm(" << options.num_features
         << ", eps=" << options.eps << ", momentum=";
  if (options.momentum) {
    stream << *options.momentum;
  } else {
    stream << "none";
  }
  stream << ", affine=" << options.affine << ", track_running_stats=" << options.track_running_stats
         << ")";
}

}  // namespace lockstep
