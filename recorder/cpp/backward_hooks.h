// Says when a backward pass has reached parameters, and when it is over.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function.h>

#include <functional>
#include <memory>
#include <vector>

namespace lockstep {

// Calls `on_begin` at the first gradient of a pass, and `on_end` when the pass is over and
// everything that others queued behind its end has run, such as the averaging of gradients. Neither
// where an exception ends the pass. Hooks are removed with the object.
class BackwardHooks {
 public:
  struct Listener {
    std::function<void()> on_begin, on_end;
  };
  BackwardHooks(const std::vector<at::Tensor>& parameters, Listener listener);
  ~BackwardHooks();
  BackwardHooks(const BackwardHooks&) = delete;

 private:
  class Hook;
  struct Pass;

  std::shared_ptr<Pass> pass_;
  std::vector<std::pair<decltype(torch::autograd::Edge::function), uintptr_t>> hooks_;
};

}  // namespace lockstep
