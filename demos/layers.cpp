#include "demos/layers.h"

#include <cmath>
#include <stdexcept>

namespace lockstep::demos {

PlainNorm::PlainNorm(const NormOptions& options)
    : options_(options),
      norm_(register_module(
          "norm",
          torch::nn::BatchNorm1d(torch::nn::BatchNormOptions(options.channels)
                                     .eps(std::ldexp(1.0, static_cast<int>(options.eps_log2)))
                                     .momentum(momentum_of(options))))) {}

std::shared_ptr<PlainNorm> PlainNorm::copied() const {
  auto copy = std::make_shared<PlainNorm>(options_);
  const torch::NoGradGuard no_grad;
  const auto own = parameters();
  for (size_t i = 0; i < own.size(); ++i) copy->parameters()[i].copy_(own[i]);
  const auto kept = buffers();
  for (size_t i = 0; i < kept.size(); ++i) copy->buffers()[i].copy_(kept[i]);
  return copy;
}

at::Tensor running_mean(const Model& model) {
  for (const auto& buffer : model.named_buffers())
    if (buffer.key().ends_with("running_mean")) return buffer.value();
  throw std::invalid_argument("this model has no running_mean");
}

}  // namespace lockstep::demos
