#pragma once

#include <torch/csrc/autograd/function.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>
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

  // By index: whether a backward pass from these tensors could reach the parameter. Walks the
  // graph.
  std::vector<bool> reachable_from(const std::vector<at::Tensor>& outputs) const;

  // Called on a thread that runs a backward pass: whether this pass may accumulate into a parameter
  // of ours at all. autograd::grad() does not, nor does backward() with other inputs.
  bool may_be_reached_by_this_pass() const;

 private:
  class Hook;
  std::vector<std::shared_ptr<torch::autograd::Node>> accumulators_;  // a tensor's own is weak
  std::vector<std::uintptr_t> keys_;
  std::unordered_map<const torch::autograd::Node*, std::size_t> index_of_;
};

// Calls `on_gradient` when a backward pass computes the gradient of `output`, each time and before
// what lies behind it. Nothing for a tensor that no graph leads to. Local.
void on_gradient_of(const at::Tensor& output, const std::function<void()>& on_gradient);

// Called on a thread that runs a backward pass: calls `on_end(false)` when this pass (not one
// around it) has ended, or `on_end(true)` when an exception has ended it. What on_end(false)
// throws, backward() throws; on_end(true) must not throw. Local.
//
// Note [Ends that come after backward]
// Autograd has a thread for each device beside the caller's. An exception ends backward() as soon
// as the caller's own thread looks up from its part, while others finish what they are at; the pass
// ends when the last of them lets go of it, on that one's thread, which may be long after
// backward() has thrown to its caller.
void at_end_of_this_pass(std::function<void(bool thrown)> on_end);

// Whether the caller stands inside a function of a backward pass.
bool is_inside_a_pass();

// The same, or inside what is called at the end of one.
bool is_on_a_thread_of_a_pass();

}  // namespace lockstep
