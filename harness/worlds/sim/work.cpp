#include "harness/worlds/sim/work.h"

#include <torch/torch.h>

#include <algorithm>
#include <stdexcept>

namespace lockstep::sim {

namespace {

using Milliseconds = std::chrono::milliseconds;

// The longest poll for completion, so that a rank that only polls reaches its timeout, too. A poll
// ends as soon as the collective is over, so that polling costs no more time than waiting.
constexpr Nanoseconds kLook = std::chrono::microseconds(50);

}  // namespace

bool SimWork::is_over() const {
  return parts_.over.has_happened() && parts_.over.when() <= parts_.scheduler.now();
}

bool SimWork::isCompleted() {
  if (!is_over()) {
    auto& scheduler = parts_.scheduler;
    const auto from = scheduler.now();
    scheduler.stand_back(kLook, parts_.what);
    if (is_over()) scheduler.advance(std::max(from, parts_.over.when()) - scheduler.now());
  }
  if (!is_over()) return false;
  if (parts_.error.empty()) parts_.arrive();
  return true;
}

std::exception_ptr SimWork::exception() const {
  if (!is_over() || parts_.error.empty()) return nullptr;
  return std::make_exception_ptr(std::runtime_error(parts_.error));
}

bool SimWork::wait(Milliseconds timeout) {
  if (timeout <= Milliseconds::zero()) timeout = parts_.timeout;
  const bool in_time = timeout <= Milliseconds::zero()
                           ? parts_.scheduler.wait(parts_.over, parts_.what)
                           : parts_.scheduler.wait(parts_.over, parts_.what, Nanoseconds(timeout));
  if (!in_time)
    throw std::runtime_error("timed out after " + std::to_string(timeout.count()) +
                             " ms, waiting for " + parts_.what());
  if (!parts_.error.empty()) throw std::runtime_error(parts_.error);
  parts_.arrive();
  return true;
}

c10::intrusive_ptr<c10::ivalue::Future> SimWork::getFuture() {
  parts_.scheduler.wait(parts_.over, parts_.what);
  auto future =
      c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
  if (parts_.error.empty()) {
    parts_.arrive();
    future->markCompleted(c10::IValue(parts_.outputs));
  } else {
    future->setError(exception());
  }
  return future;
}

}  // namespace lockstep::sim
