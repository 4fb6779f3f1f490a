#pragma once

#include <torch/csrc/autograd/function.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace lockstep {

// Listens for the gradients of parameters, as long as it lives: whenever a backward pass has
// accumulated one into .grad, the listener gets the parameter's index, on the thread that runs the
// pass. It also hears of a gradient that autograd found to be undefined.
//
// Everything is Local and does not block.
class GradientHooks {
 public:
  using Listener = std::function<void(std::size_t index)>;

  // `parameters` are leaves that require a gradient.
  GradientHooks(const std::vector<at::Tensor>& parameters, const Listener& listener);
  ~GradientHooks();
  GradientHooks(const GradientHooks&) = delete;
  GradientHooks& operator=(const GradientHooks&) = delete;

  // Whether `parameter` still reports to this object as `index`: converting a parameter, as
  // Module::to() does, gives it another accumulator, and ours hears of nothing any more.
  bool is_attached(std::size_t index, const at::Tensor& parameter) const;

 private:
  class Hook;
  std::vector<std::shared_ptr<torch::autograd::Node>> accumulators_;  // a tensor's own is weak
  std::vector<std::uintptr_t> keys_;
};

}  // namespace lockstep
