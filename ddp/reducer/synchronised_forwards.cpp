#include "ddp/reducer/synchronised_forwards.h"

#include <torch/torch.h>

#include <algorithm>

namespace lockstep {

namespace {

// A parameter that forward returns unchanged has no function that identifies its passes, and
// matters only where nothing else that it returns has one.
bool have_graphs(const std::vector<at::Tensor>& outputs) {
  const auto has_graph = [](const at::Tensor& each) { return each.grad_fn() != nullptr; };
  const auto is_parameter = [](const at::Tensor& each) {
    return each.requires_grad() && each.is_leaf();
  };
  return std::any_of(outputs.begin(), outputs.end(), has_graph) ||
         std::none_of(outputs.begin(), outputs.end(), is_parameter);
}

}  // namespace

void SynchronisedForwards::forward_begins() {
  current_ = begin_recording();
  last_one_decides_ = false;
}

void SynchronisedForwards::forward_ends(const std::optional<std::vector<at::Tensor>>& outputs,
                                        bool synchronised, const Listener& on_output_gradient) {
  const bool are_seen = outputs && have_graphs(*outputs);
  last_one_decides_ = synchronised && !are_seen;
  sees_all_outputs_ = sees_all_outputs_ && are_seen;
  if (synchronised) {
    finish_recording(current_);
    remember(current_);
    are_outstanding_ = true;
  }
  if (outputs) {
    for (const at::Tensor& output : *outputs) {
      on_gradient_of(output,
                     [on_output_gradient, synchronised] { on_output_gradient(synchronised); });
    }
  }
}

// Passes through an output of a forward dropped here are still reduced.
void SynchronisedForwards::remember(const Recording& recording) {
  constexpr std::size_t kRemembered = 1024;
  remembered_.push_back(recording);
  if (remembered_.size() > kRemembered) remembered_.pop_front();
}

bool SynchronisedForwards::are_run_by_this_pass() const {
  return this_pass_runs_any_of(remembered_);
}

bool SynchronisedForwards::reduce_this_pass() const {
  return last_one_decides_ || are_run_by_this_pass();
}

}  // namespace lockstep
