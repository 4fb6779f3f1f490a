#include "ddp/base/waiting.h"

#include <algorithm>

namespace lockstep {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kGiveUpInterval{100};

}  // namespace

Deadline deadline_in(milliseconds time) {
  return Clock::now() + time;
}

milliseconds time_left(Deadline deadline) {
  return std::max(std::chrono::ceil<milliseconds>(deadline - Clock::now()), milliseconds(1));
}

bool poll_until(Deadline deadline, const std::function<bool()>& is_over, PollInterval interval) {
  for (Clock::duration pause = interval.shortest; !is_over();
       pause = std::min<Clock::duration>(2 * pause, interval.longest)) {
    const auto left = deadline - Clock::now();
    if (left <= Clock::duration::zero()) return false;
    std::this_thread::sleep_for(std::min(pause, left));
  }
  return true;
}

DetachableCall::DetachableCall(std::function<void()> function) {
  thread_ = std::thread([state = state_, function = std::move(function)]() mutable {
    std::exception_ptr exception;
    try {
      function();
    } catch (...) {
      exception = std::current_exception();
    }
    function = nullptr;
    const std::lock_guard lock(state->mutex);
    state->exception = std::exchange(exception, nullptr);
    state->has_ended = true;
    state->changed.notify_all();
  });
}

DetachableCall::~DetachableCall() {
  if (!thread_.joinable()) return;
  if (has_ended()) {
    thread_.join();
  } else {
    thread_.detach();
  }
}

bool DetachableCall::has_ended() const {
  const std::lock_guard lock(state_->mutex);
  return state_->has_ended;
}

bool DetachableCall::wait_until(Deadline deadline, const std::function<bool()>& gives_up) const {
  std::unique_lock lock(state_->mutex);
  const auto ended = [&] { return state_->has_ended; };
  if (!gives_up) return state_->changed.wait_until(lock, deadline, ended);
  while (
      !state_->changed.wait_until(lock, std::min(deadline, deadline_in(kGiveUpInterval)), ended)) {
    lock.unlock();
    const bool is_over = gives_up() || Clock::now() >= deadline;
    lock.lock();
    if (is_over) break;
  }
  return state_->has_ended;
}

void DetachableCall::rethrow() const {
  const std::lock_guard lock(state_->mutex);
  if (state_->exception) std::rethrow_exception(state_->exception);
}

}  // namespace lockstep
