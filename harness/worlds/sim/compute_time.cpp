#include "harness/worlds/sim/compute_time.h"

#include <ATen/record_function.h>

#include <string_view>
#include <utility>

namespace lockstep::sim {

namespace {

using Pass = std::function<void(std::chrono::nanoseconds)>;

// Callbacks of RecordFunction capture nothing: their state is thread-local.
struct Clockwork {
  Timing timing;
  Pass pass;
  int depth = 0;  // operations begun and not ended
};
thread_local Clockwork* t_clockwork = nullptr;

int64_t elements(const at::RecordFunction& operation) {
  int64_t count = 0;
  for (const auto& input : operation.inputs()) {
    if (input.isTensor() && input.toTensor().defined()) count += input.toTensor().numel();
    if (input.isTensorList())
      for (const at::Tensor& tensor : input.toTensorList())
        if (tensor.defined()) count += tensor.numel();
  }
  return count;
}

// Communication has a price of its own.
bool computes(const at::RecordFunction& operation) {
  return !std::string_view(operation.name()).starts_with("c10d::");
}

// Autograd's engine reports each node of a backward pass around the operations that the node calls
// and the hooks of its tensors: it has no inputs, and their time is all of its own.
bool is_node(const at::RecordFunction& operation) {
  return std::string_view(operation.name()).starts_with("autograd::engine::evaluate_function");
}

std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& operation) {
  if (t_clockwork->depth == 0 && is_node(operation)) return nullptr;
  if (t_clockwork->depth++ == 0 && computes(operation)) {
    const auto& timing = t_clockwork->timing;
    t_clockwork->pass(std::chrono::nanoseconds(
        timing.operation_ns + elements(operation) * timing.picoseconds_per_element / 1000));
  }
  return nullptr;
}

// Whatever was begun and counts is inside another operation, or is one: the depth is 0 for others.
void end(const at::RecordFunction&, at::ObserverContext*) {
  if (t_clockwork->depth > 0) --t_clockwork->depth;
}

}  // namespace

ComputeTime::ComputeTime(const Timing& timing, Pass pass) {
  if (timing.operation_ns == 0 && timing.picoseconds_per_element == 0) return;
  t_clockwork = new Clockwork{timing, std::move(pass)};
  handle_ = at::addThreadLocalCallback(
      at::RecordFunctionCallback(begin, end).needsInputs(true).scopes({at::RecordScope::FUNCTION}));
}

ComputeTime::~ComputeTime() {
  if (handle_ == 0) return;
  at::removeCallback(handle_);
  delete std::exchange(t_clockwork, nullptr);
}

}  // namespace lockstep::sim
