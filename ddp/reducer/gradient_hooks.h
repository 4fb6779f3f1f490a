#pragma once

#include <torch/csrc/autograd/function.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

namespace lockstep {

// Post-hooks on the AccumulateGrad nodes of parameters, as long as it lives: whenever a backward
// pass has accumulated one into .grad, the listener is called with the parameter's index, on the
// thread that runs the pass; also for a gradient that autograd found to be undefined.
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

  // True if `parameter` still reports to this object as `index`: converting a parameter, as
  // Module::to() does, gives it another accumulator, and our hook is no longer called.
  bool is_attached(std::size_t index, const at::Tensor& parameter) const;

  // By index: whether a backward pass from these tensors could reach the parameter. Walks the
  // graph.
  std::vector<bool> reachable_from(const std::vector<at::Tensor>& outputs) const;

  // Called on a thread that runs a backward pass: whether this pass may accumulate into one of our
  // parameters at all. autograd::grad() does not, nor does backward() with other inputs.
  bool may_be_reached_by_this_pass() const;

 private:
  class Hook;
  using Owner = decltype(torch::autograd::Edge::function);  // of another type since PyTorch 2.13
  std::vector<Owner> accumulators_;                         // a tensor's own is weak
  std::vector<std::uintptr_t> keys_;
  std::unordered_map<const torch::autograd::Node*, std::size_t> index_of_;
};

// Calls `on_gradient` when a backward pass computes the gradient of `output`, each time and before
// the functions that it is passed to. Does nothing for a tensor without a graph. Local.
void on_gradient_of(const at::Tensor& output, const std::function<void()>& on_gradient);

// The functions that one thread records for backward between two moments: autograd numbers them per
// thread.
struct Recording {
  std::uint64_t thread = 0;
  std::uint64_t first = 0;
  std::uint64_t end = 0;
};

// Records on this thread until finish_recording() is called there, which returns false on any
// other. Local.
Recording begin_recording();
bool finish_recording(Recording& recording);

// Called on a thread that runs a backward pass: whether its graph has a function of one of these,
// except the root, which autograd does not list if it is the only one. Walks all functions.
bool this_pass_runs_any_of(const std::deque<Recording>& recordings);

// Called on a thread that runs a backward pass: calls `on_end(false)` when this pass (not an
// enclosing one) has ended, or `on_end(true)` when an exception has ended it. backward() rethrows
// what on_end(false) throws; on_end(true) must not throw. Local.
//
// Note [Ends that come after backward]
// Autograd has a thread for each device besides the caller's. After an exception backward() throws
// as soon as the caller's own thread finishes its current function, while other threads finish
// theirs. The pass ends when the last thread releases it, on that thread, which may be long after
// backward() has thrown.
void at_end_of_this_pass(std::function<void(bool thrown)> on_end);

// True if the caller runs inside a function of a backward pass.
bool is_inside_a_pass();

// The same, or inside a callback at the end of one.
bool is_on_a_thread_of_a_pass();

}  // namespace lockstep
