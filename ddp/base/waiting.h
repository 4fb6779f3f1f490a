#pragma once

#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

namespace lockstep {

// Polling and calls with a deadline, without torch. No other file of this library sleeps or starts
// a thread (tests/tidy).

using Deadline = std::chrono::steady_clock::time_point;

Deadline deadline_in(std::chrono::milliseconds time);

// Until the deadline, rounded up; at least a millisecond, since zero means "for ever" in many APIs.
std::chrono::milliseconds time_left(Deadline deadline);

// The sleep between two calls of a condition doubles from the shortest to the longest.
struct PollInterval {
  std::chrono::microseconds shortest{1'000};
  std::chrono::microseconds longest{50'000};
};

// Calls `is_over`, at least once, until it returns true or the deadline has passed; returns what it
// returned last. Local; throws what `is_over` throws.
bool poll_until(Deadline deadline, const std::function<bool()>& is_over,
                PollInterval interval = {});

// A call on a thread of its own, for what may block for ever. The destructor leaves the thread
// behind if the call has not ended, so the function must own all that it touches. The function
// object is destroyed on that thread before the call counts as ended. Everything is Local.
class DetachableCall {
 public:
  explicit DetachableCall(std::function<void()> function);
  DetachableCall(DetachableCall&&) = default;
  DetachableCall& operator=(DetachableCall&&) = delete;
  ~DetachableCall();

  bool has_ended() const;

  // Blocks until the call has ended, the deadline has passed, or `gives_up`, which is polled ten
  // times a second on the calling thread, returns true. Returns whether the call has ended.
  bool wait_until(Deadline deadline, const std::function<bool()>& gives_up = {}) const;

  // Rethrows what the function threw, if anything. Requires has_ended().
  void rethrow() const;

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    bool has_ended = false;
    std::exception_ptr exception;
  };

  std::shared_ptr<State> state_ = std::make_shared<State>();
  std::thread thread_;
};

// Returns what `function` returns, and throws what it throws; throws std::runtime_error with
// `excuse()` if it has not ended within `limit`. Local; blocks for `limit`, and for `excuse`.
template <class Result>
Result in_time(std::chrono::milliseconds limit, std::function<Result()> function,
               const std::function<std::string()>& excuse) {
  const auto result = std::make_shared<std::optional<Result>>();
  const DetachableCall call(
      [result, function = std::move(function)] { result->emplace(function()); });
  if (!call.wait_until(deadline_in(limit))) throw std::runtime_error(excuse());
  call.rethrow();
  return std::move(**result);
}

}  // namespace lockstep
