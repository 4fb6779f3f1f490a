#include "ddp/sync_batch_norm.h"

#include "ddp/batch_exchange.h"
#include "ddp/batch_norm_function.h"
#include "ddp/errors.h"

#include <torch/nn/functional/batchnorm.h>
#include <torch/torch.h>

#include <cmath>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

namespace {

std::string text_of(std::optional<double> value) {
  if (!value) return "unset";
  std::ostringstream text;
  text.precision(17);
  text << *value;
  return text.str();
}

void require(bool holds, const std::string& sentence) {
  if (!holds) throw UsageError("SyncBatchNorm: " + sentence);
}

void check(const SyncBatchNormOptions& options) {
  require(options.num_features > 0,
          "num_features is " + std::to_string(options.num_features) + ", expected 1 or more");
  require(std::isfinite(options.eps) && options.eps >= 0,
          "eps is " + text_of(options.eps) + ", expected 0 or more");
  const double momentum = options.momentum.value_or(0);
  require(momentum >= 0 && momentum <= 1,
          "momentum is " + text_of(options.momentum) + ", expected 0 to 1 or none");
}

bool is_supported(at::ScalarType dtype) {
  return dtype == at::kFloat || dtype == at::kDouble || dtype == at::kHalf ||
         dtype == at::kBFloat16;
}

// Why this input cannot be normalised, if it cannot.
std::optional<std::string> obstacle_in(const at::Tensor& input, std::int64_t num_features) {
  const std::string subject = "the input of SyncBatchNorm ";
  if (!input.defined()) return subject + "is undefined";
  if (!input.device().is_cpu()) return subject + "is on " + input.device().str() + ", expected cpu";
  if (input.layout() != at::kStrided)
    return subject + "has layout " + c10::str(input.layout()) + ", expected a dense one";
  if (!is_supported(input.scalar_type())) {
    return subject + "has dtype " + c10::toString(input.scalar_type()) +
           ", expected Float, Double, Half or BFloat16";
  }
  if (input.dim() < 2 || input.size(1) != num_features) {
    return subject + "has shape " + c10::str(input.sizes()) + ", expected [samples, " +
           std::to_string(num_features) + ", ...]";
  }
  return std::nullopt;
}

Declaration declare(const at::Tensor& input, const SyncBatchNormOptions& options,
                    const at::Tensor& num_batches_tracked, std::int64_t forward_count) {
  Declaration out{.statements = {}, .obstacle = obstacle_in(input, options.num_features)};
  const auto state = [&](const std::string& subject, const std::string& value) {
    out.statements.push_back({subject + " of SyncBatchNorm", value});
  };
  // A rank that left a forward out is found at the next one, before anything is merged.
  state("the number of earlier forwards in training", std::to_string(forward_count));
  state("num_features", std::to_string(options.num_features));
  state("eps", text_of(options.eps));
  state("momentum", text_of(options.momentum));
  state("affine", options.affine ? "true" : "false");
  state("track_running_stats", options.track_running_stats ? "true" : "false");
  if (!options.momentum && num_batches_tracked.defined())
    state("num_batches_tracked", std::to_string(num_batches_tracked.item<std::int64_t>()));
  if (input.defined()) state("the input dtype", c10::toString(input.scalar_type()));
  return out;
}

// Double precision in between, so that a factor such as 0.1 is not rounded to a narrow dtype first.
void move_towards(at::Tensor& running, const std::vector<double>& batch, double factor) {
  const at::Tensor kept = running.to(at::kDouble) * (1 - factor);
  running.copy_(kept + torch::tensor(batch, at::kDouble) * factor);
}

}  // namespace

SyncBatchNormImpl::SyncBatchNormImpl(SyncBatchNormOptions given)
    : torch::nn::Cloneable<SyncBatchNormImpl>("SyncBatchNorm"), options(std::move(given)) {
  check(options);
  if (options.process_group)
    communicator_ = std::make_shared<Communicator>(options.process_group, options.timeout);
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
  if (is_training()) return forward_in_training(input);
  if (const auto obstacle = obstacle_in(input, options.num_features)) throw UsageError(*obstacle);
  return torch::nn::functional::batch_norm(input, running_mean, running_var,
                                           torch::nn::functional::BatchNormFuncOptions()
                                               .weight(weight)
                                               .bias(bias)
                                               .training(!options.track_running_stats)
                                               .eps(options.eps));
}

at::Tensor SyncBatchNormImpl::forward_in_training(const at::Tensor& input) {
  require(communicator_ != nullptr,
          "process_group is null; in training expected the group of the ranks that train together");
  const auto needs_gradient = [](const at::Tensor& tensor) {
    return at::GradMode::is_enabled() && tensor.defined() && tensor.requires_grad();
  };
  BatchShare mine{
      .declaration = declare(input, options, num_batches_tracked, forward_count_++),
      .input_needs_gradient = needs_gradient(input),
      .has_backward = needs_gradient(input) || needs_gradient(weight) || needs_gradient(bias),
      .channels = options.num_features,
      .statistics = [&] { return statistics_of(input); }};
  if (!mine.declaration.obstacle) mine.count = input.numel() / options.num_features;
  const BatchAgreement agreed = exchange(*communicator_, mine);
  if (options.track_running_stats && agreed.whole.count > 0) move_running_stats(agreed.whole);
  return normalised(input, weight, bias,
                    {.statistics = agreed.whole,
                     .eps = options.eps,
                     .communicator = agreed.some_input_needs_gradient ? communicator_ : nullptr});
}

void SyncBatchNormImpl::move_running_stats(const BatchStatistics& whole) {
  const torch::NoGradGuard no_grad;
  num_batches_tracked.add_(1);
  const double factor = options.momentum.value_or(1.0 / num_batches_tracked.item<double>());
  move_towards(running_mean, whole.averages, factor);
  move_towards(running_var, variances(whole, whole.count - 1), factor);
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
