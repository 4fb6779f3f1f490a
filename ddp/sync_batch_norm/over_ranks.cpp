#include "ddp/sync_batch_norm/over_ranks.h"

#include "ddp/comm/streams.h"
#include "ddp/sync_batch_norm/exchange.h"
#include "ddp/sync_batch_norm/function.h"
#include "ddp/sync_batch_norm/kernels_on_device.h"

#include <torch/torch.h>

#include <cmath>
#include <string>
#include <utility>

namespace lockstep {

namespace {

std::string text_of(std::optional<double> value) {
  return value ? exact_text(*value) : "unset";
}

bool is_supported(at::ScalarType dtype) {
  return dtype == at::kFloat || dtype == at::kDouble || dtype == at::kHalf ||
         dtype == at::kBFloat16;
}

// The layer's name in errors, the same on every rank: ranks compare names before anything else.
std::string called(const std::string& layer, const std::string& name) {
  return name.empty() ? layer : layer + " '" + name + "'";
}

// Why this layer and group cannot take an input on this device, or nullopt.
std::optional<std::string> validation_error_of_device(const at::Device& device,
                                                      const BatchNormTensors& tensors,
                                                      const Communicator& communicator,
                                                      const std::string& layer) {
  const std::string subject = "the input of " + layer + " is on " + device.str();
  for (const at::Tensor& each : {tensors.weight, tensors.running_mean}) {
    if (each.defined() && each.device() != device)
      return subject + ", expected " + each.device().str() + ", where the layer is";
  }
  if (!communicator.carries(device.type()))
    return subject + ", for which its process group (" + communicator.backend_name() +
           ") has no backend";
  return std::nullopt;
}

RankDescription describe_rank(const at::Tensor& input, const BatchNormSettings& settings,
                              const BatchNormTensors& tensors, const Communicator& communicator,
                              const std::string& name, std::int64_t forward_count) {
  RankDescription out{.properties = {{"the name of a SyncBatchNorm", "'" + name + "'"}},
                      .validation_error = validation_error_in(input, settings, name)};
  if (!out.validation_error) {
    out.validation_error = validation_error_of_device(input.device(), tensors, communicator,
                                                      called(settings.layer, name));
  }
  const auto state = [&](const std::string& subject, const std::string& value) {
    out.properties.push_back({subject + " of " + called("SyncBatchNorm", name), value});
  };
  // Finds a rank that skipped a forward at the next one, before anything is merged.
  state("the number of earlier forwards in training", std::to_string(forward_count));
  state("num_features", std::to_string(settings.num_features));
  state("eps", text_of(settings.eps));
  state("momentum", text_of(settings.momentum));
  state("affine", settings.affine ? "true" : "false");
  state("track_running_stats", settings.track_running_stats ? "true" : "false");
  const at::Tensor& count = tensors.num_batches_tracked;
  // On a device the host would have to wait for the value.
  if (!settings.momentum && count.defined() && !has_streams(count.device()))
    state("num_batches_tracked", std::to_string(count.item<std::int64_t>()));
  if (input.defined()) {
    state("the input dtype", c10::toString(input.scalar_type()));
    state("the input's kind of device", c10::DeviceTypeName(input.device().type(), true));
  }
  return out;
}

std::string text_of_axes(const BatchNormSettings& settings) {
  if (!settings.axes_max) return "";
  const std::string at_most = std::to_string(*settings.axes_max) + " axes";
  if (settings.axes_min == *settings.axes_max) return " with " + at_most;
  return " with " + std::to_string(settings.axes_min) + " to " + at_most;
}

bool fits(const at::Tensor& input, const BatchNormSettings& settings) {
  return input.dim() >= settings.axes_min &&
         input.dim() <= settings.axes_max.value_or(input.dim()) &&
         input.size(1) == settings.num_features;
}

// Computes in double, so that a factor such as 0.1 is not rounded to a narrow dtype first.
void move_towards(const at::Tensor& running, const at::Tensor& batch, const at::Tensor& factor) {
  const at::Tensor kept = running.to(at::kDouble) * (1 - factor);
  running.copy_(kept + batch.to(at::kDouble) * factor);
}

// `averages` and the unbiased `variances` are those of the whole batch.
void move_running_stats(const at::Tensor& averages, const at::Tensor& variances,
                        const BatchNormSettings& settings, const BatchNormTensors& tensors) {
  const torch::NoGradGuard no_grad;
  tensors.num_batches_tracked.add_(1);
  const at::Tensor factor = settings.momentum
                                ? at::scalar_tensor(*settings.momentum, at::kDouble)
                                : tensors.num_batches_tracked.to(at::kDouble).reciprocal();
  move_towards(tensors.running_mean, averages, factor);
  move_towards(tensors.running_var, variances, factor);
}

}  // namespace

std::optional<std::string> validation_error_in(const BatchNormSettings& settings) {
  if (settings.num_features <= 0)
    return "num_features is " + std::to_string(settings.num_features) + ", expected 1 or more";
  if (!std::isfinite(settings.eps) || settings.eps < 0)
    return "eps is " + text_of(settings.eps) + ", expected 0 or more";
  const double momentum = settings.momentum.value_or(0);
  if (!(momentum >= 0 && momentum <= 1))
    return "momentum is " + text_of(settings.momentum) + ", expected 0 to 1 or none";
  return std::nullopt;
}

std::optional<std::string> validation_error_in(const at::Tensor& input,
                                               const BatchNormSettings& settings,
                                               const std::string& name) {
  const std::string subject = "the input of " + called(settings.layer, name) + " ";
  if (!input.defined()) return subject + "is undefined";
  if (input.device().is_meta()) return subject + "is on the meta device and has no values";
  if (input.layout() != at::kStrided)
    return subject + "has layout " + c10::str(input.layout()) + ", expected a dense one";
  if (!is_supported(input.scalar_type())) {
    return subject + "has dtype " + c10::toString(input.scalar_type()) +
           ", expected Float, Double, Half or BFloat16";
  }
  if (!fits(input, settings)) {
    return subject + "has shape " + c10::str(input.sizes()) + ", expected [samples, " +
           std::to_string(settings.num_features) + ", ...]" + text_of_axes(settings);
  }
  return std::nullopt;
}

BatchNormOverRanks::BatchNormOverRanks(c10::intrusive_ptr<c10d::ProcessGroup> group,
                                       std::optional<std::chrono::milliseconds> timeout)
    : group_(group), communicator_(std::make_shared<Communicator>(std::move(group), timeout)) {}

void BatchNormOverRanks::rebind(c10::intrusive_ptr<c10d::ProcessGroup> group,
                                Communicator communicator) {
  group_ = std::move(group);
  communicator.take_timeout_of(*communicator_);
  communicator_ = std::make_shared<Communicator>(std::move(communicator));
  forward_count_ = 0;
}

at::Tensor BatchNormOverRanks::forward(const at::Tensor& input, const BatchNormSettings& settings,
                                       const BatchNormTensors& tensors) {
  const auto needs_gradient = [](const at::Tensor& tensor) {
    return at::GradMode::is_enabled() && tensor.defined() && tensor.requires_grad();
  };
  if (input.defined() && has_streams(input.device())) communicator_->travel_by(input.device());
  at::Tensor values;  // of the input, once it is validated
  BatchShare mine{.description = describe_rank(input, settings, tensors, *communicator_, name_,
                                               forward_count_++),
                  .input_needs_gradient = needs_gradient(input),
                  .has_backward = needs_gradient(input) || needs_gradient(tensors.weight) ||
                                  needs_gradient(tensors.bias),
                  .channels = settings.num_features,
                  .statistics = {}};
  const bool is_on_device = input.defined() && has_streams(input.device());
  if (!is_on_device) mine.statistics = [&] { return statistics_of(values); };
  if (!mine.description.validation_error) {
    values = laid_out(input);
    mine.count = input.numel() / settings.num_features;
  }
  const BatchAgreement agreed = exchange(*communicator_, mine);
  return normalised(values,
                    {.by = is_on_device ? from_device(values, agreed, settings, tensors)
                                        : from_statistics(agreed, settings, tensors),
                     .count = agreed.whole.count,
                     .communicator = agreed.some_input_needs_gradient ? communicator_ : nullptr});
}

Normaliser BatchNormOverRanks::from_statistics(const BatchAgreement& agreed,
                                               const BatchNormSettings& settings,
                                               const BatchNormTensors& tensors) {
  const BatchStatistics& whole = agreed.whole;
  if (settings.track_running_stats && whole.count > 0) {
    move_running_stats(torch::tensor(whole.averages, at::kDouble),
                       torch::tensor(variances(whole, whole.count - 1), at::kDouble), settings,
                       tensors);
  }
  return normaliser_of(whole, settings.eps, tensors.weight, tensors.bias);
}

// Note [Statistics on a device]
// The host needs the ranks' descriptions and counts, so they are gathered on the CPU if the group
// has a backend for it. The statistics stay on the device: a second gather carries them, and the
// host does not wait.
Normaliser BatchNormOverRanks::from_device(const at::Tensor& values, const BatchAgreement& agreed,
                                           const BatchNormSettings& settings,
                                           const BatchNormTensors& tensors) {
  const torch::NoGradGuard no_grad;
  const at::Tensor mine = on_device::statistics_of(values);
  Normaliser by{.averages = mine[0],
                .inverse_deviations = mine[1],
                .weight = tensors.weight,
                .bias = tensors.bias};
  if (agreed.whole.count == 0) return by;
  const auto moments = on_device::merged(
      communicator_->gather(mine, "exchange of SyncBatchNorm's statistics"), agreed.counts);
  if (settings.track_running_stats) {
    move_running_stats(moments.averages, moments.unbiased_variances, settings, tensors);
  }
  by.averages = moments.averages;
  by.inverse_deviations = moments.variances.add(settings.eps).rsqrt();
  return by;
}

void LayerOverRanks::train_over(c10::intrusive_ptr<c10d::ProcessGroup> group,
                                std::optional<std::chrono::milliseconds> timeout,
                                std::string name) {
  over_ranks_.emplace(std::move(group), timeout);
  over_ranks_->set_name(std::move(name));
}

void LayerOverRanks::name_if_nameless(const std::string& name) {
  if (over_ranks_ && over_ranks_->name().empty()) over_ranks_->set_name(name);
}

}  // namespace lockstep
