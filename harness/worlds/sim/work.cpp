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

// A sixteenth later, so that a wait in slices that has the same timeout ends first.
SimWork::SimWork(Parts parts)
    : parts_(std::move(parts)),
      deadline_(parts_.timeout > Milliseconds::zero()
                    ? std::optional(parts_.scheduler.now() + Nanoseconds(parts_.timeout) * 17 / 16)
                    : std::nullopt) {}

bool SimWork::has_come() const {
  return parts_.over.has_happened() && parts_.over.when() <= parts_.scheduler.now();
}

bool SimWork::is_late() const {
  if (!deadline_ || parts_.scheduler.now() < *deadline_) return false;
  return !parts_.over.has_happened() || parts_.over.when() > *deadline_;
}

std::string SimWork::error() const {
  if (!is_late()) return parts_.error;
  return "timed out after " + std::to_string(parts_.timeout.count()) + " ms, waiting for " +
         parts_.what();
}

bool SimWork::isCompleted() {
  if (!is_over()) {
    auto& scheduler = parts_.scheduler;
    const auto from = scheduler.now();
    scheduler.stand_back(kLook, parts_.what);
    if (has_come()) scheduler.advance(std::max(from, parts_.over.when()) - scheduler.now());
  }
  if (!is_over()) return false;
  if (error().empty()) parts_.arrive();
  return true;
}

std::exception_ptr SimWork::exception() const {
  if (!is_over() || error().empty()) return nullptr;
  return std::make_exception_ptr(std::runtime_error(error()));
}

bool SimWork::wait(Milliseconds timeout) {
  std::optional<Nanoseconds> most;
  if (timeout > Milliseconds::zero()) most = timeout;
  if (deadline_)
    most = std::min(most.value_or(Nanoseconds::max()), *deadline_ - parts_.scheduler.now());
  if (!is_late() && !parts_.scheduler.wait(parts_.over, parts_.what, most) && !is_late())
    throw std::runtime_error("timed out after " + std::to_string(timeout.count()) +
                             " ms, waiting for " + parts_.what());
  if (const auto text = error(); !text.empty()) throw std::runtime_error(text);
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
