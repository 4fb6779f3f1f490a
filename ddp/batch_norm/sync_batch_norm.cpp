#include "ddp/batch_norm/sync_batch_norm.h"

#include "ddp/errors.h"

#include <torch/nn/functional/batchnorm.h>
#include <torch/torch.h>

#include <utility>

namespace lockstep {

namespace {

BatchNormSettings settings_of(const SyncBatchNormOptions& options) {
  return {.num_features = options.num_features,
          .eps = options.eps,
          .momentum = options.momentum,
          .affine = options.affine,
          .track_running_stats = options.track_running_stats};
}

}  // namespace

SyncBatchNormImpl::SyncBatchNormImpl(SyncBatchNormOptions given)
    : torch::nn::Cloneable<SyncBatchNormImpl>("SyncBatchNorm"), options(std::move(given)) {
  check(settings_of(options));
  if (options.process_group)
    over_ranks_.emplace(settings_of(options), options.process_group, options.timeout);
  SyncBatchNormImpl::reset();
}

void SyncBatchNormImpl::reset() {
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
    return over_ranks_->forward(input,
                                {weight, bias, running_mean, running_var, num_batches_tracked});
  }
  if (const auto obstacle = obstacle_in(input, options.num_features)) throw UsageError(*obstacle);
  return torch::nn::functional::batch_norm(input, running_mean, running_var,
                                           torch::nn::functional::BatchNormFuncOptions()
                                               .weight(weight)
                                               .bias(bias)
                                               .training(!options.track_running_stats)
                                               .eps(options.eps));
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
