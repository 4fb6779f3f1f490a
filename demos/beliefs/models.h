// The models that the beliefs' programs train: weights in float64, so that a difference is no
// rounding.
#pragma once

#include "harness/rank/rank_context.h"
#include "harness/worlds/subject.h"

#include <torch/torch.h>

namespace lockstep::demos::beliefs {

// One weight, by which a forward multiplies its input.
class OneWeight : public Model {
 public:
  explicit OneWeight(double value = 1)
      : weight(register_parameter("weight", torch::full({1}, value, at::kDouble))) {}
  at::Tensor forward(const at::Tensor& input) override { return input * weight; }

  // The weight is another tensor from here on, with the same value.
  void replace_weight() {
    weight = weight.detach().clone().requires_grad_();
    parameters_["weight"] = weight;
  }

  at::Tensor weight;
};

// Two weights, of which a forward uses the first alone, or both.
class TwoWeights : public Model {
 public:
  TwoWeights()
      : used(register_parameter("used", torch::ones({1}, at::kDouble))),
        unused(register_parameter("unused", torch::ones({1}, at::kDouble))) {}
  at::Tensor forward(const at::Tensor& input) override {
    return uses_both ? input * used * unused : input * used;
  }

  at::Tensor used, unused;
  bool uses_both = false;
};

// The numbers first + 1, ..., first + count.
inline at::Tensor samples(int64_t first, int64_t count) {
  return torch::arange(first + 1, first + count + 1, at::kDouble);
}

// The sum over all ranks.
inline at::Tensor summed(RankContext& here, const at::Tensor& value) {
  std::vector<at::Tensor> tensors{value.clone()};
  here.group()->allreduce(tensors)->wait();
  return tensors.front();
}

// Multiplies each input by a weight of its own.
class Weights : public Model {
 public:
  explicit Weights(int64_t count)
      : weights(register_parameter("weights", torch::ones({count}, at::kDouble))) {}
  at::Tensor forward(const at::Tensor& input) override { return input * weights; }
  at::Tensor weights;
};

}  // namespace lockstep::demos::beliefs
