// The models that demonstrations of batch normalisation train: one layer each.
#pragma once

#include "harness/rank/rank_context.h"
#include "harness/worlds/subject.h"

#include <torch/torch.h>

#include <functional>

namespace lockstep::demos {

// LibTorch's BatchNorm for inputs [samples, channels], as torch::nn::Module "norm".
class PlainNorm : public Model {
 public:
  explicit PlainNorm(const NormOptions& options);
  at::Tensor forward(const at::Tensor& input) override { return norm_(input); }

  // The same parameters and buffers, in tensors of its own.
  std::shared_ptr<PlainNorm> copied() const;

 private:
  const NormOptions options_;
  torch::nn::BatchNorm1d norm_;
};

// Calls `on_entry` as a forward begins, after everything that a wrapper does before it.
class Watched : public Model {
 public:
  explicit Watched(std::shared_ptr<Model> layer) : layer_(register_module("layer", layer)) {}
  at::Tensor forward(const at::Tensor& input) override {
    if (on_entry) on_entry();
    return layer_->forward(input);
  }
  std::function<void()> on_entry;

 private:
  std::shared_ptr<Model> layer_;
};

// The buffer "running_mean" of a model with one layer that has it.
at::Tensor running_mean(const Model& model);

}  // namespace lockstep::demos
