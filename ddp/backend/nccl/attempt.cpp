#include "ddp/backend/nccl/attempt.h"

#include "ddp/base/waiting.h"

#include <atomic>
#include <cstdlib>
#include <exception>
#include <list>
#include <memory>
#include <mutex>
#include <utility>

namespace lockstep {

namespace {

constexpr std::chrono::seconds kPatienceAtExit{3};

// Calls that were given up and are awaited at exit; leaked, since the end of the process uses it.
class LeftBehind {
 public:
  static void add(DetachableCall call) {
    LeftBehind& all = instance();
    const std::lock_guard lock(all.mutex_);
    if (all.calls_.empty()) std::atexit([] { instance().wait(); });
    all.calls_.push_back(std::move(call));
  }

 private:
  static LeftBehind& instance() {
    static auto* const all = new LeftBehind;
    return *all;
  }

  void wait() {
    const std::lock_guard lock(mutex_);
    const Deadline deadline = deadline_in(kPatienceAtExit);
    for (const DetachableCall& each : calls_) each.wait_until(deadline);
  }

  std::mutex mutex_;
  std::list<DetachableCall> calls_;
};

}  // namespace

std::string make_attempt(Attempt attempt, const std::string& late) {
  // Set by the thread when the call returns and by the caller when it gives up: the second sees it.
  const auto is_decided = std::make_shared<std::atomic<bool>>(false);
  DetachableCall call([is_decided, call = std::exchange(attempt.call, nullptr),
                       clean_up = std::exchange(attempt.clean_up, nullptr)] {
    std::exception_ptr problem;
    try {
      call();
    } catch (...) {
      problem = std::current_exception();
    }
    const bool is_given_up = is_decided->exchange(true);
    if (problem || is_given_up) clean_up();
    if (problem && !is_given_up) std::rethrow_exception(problem);
  });
  std::string cause;
  const Deadline deadline = deadline_in(attempt.time);
  const bool has_ended = call.wait_until(deadline, [&] {
    if (attempt.peer_error) cause = attempt.peer_error();
    return !cause.empty();
  });
  if (!has_ended && !is_decided->exchange(true)) {
    if (attempt.is_awaited_at_exit) LeftBehind::add(std::move(call));
    return cause.empty() ? late : cause;
  }
  call.wait_until(Deadline::max());  // it has returned, and may be cleaning up
  call.rethrow();
  return "";
}

}  // namespace lockstep
