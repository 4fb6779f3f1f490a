// Why a campaign ends before all its cases have run: it was interrupted, a tier is lost, or an
// exception ended it. Thread-safe.
#pragma once

#include <atomic>
#include <exception>
#include <mutex>
#include <string>

namespace lockstep {

class EarlyEnd {
 public:
  // From now on the campaign is stopped once `interrupted` turns true.
  void watch(const std::atomic<bool>& interrupted) { interrupted_ = &interrupted; }

  // Cases still running no longer count.
  bool stopped() const { return stopped_ || (interrupted_ && *interrupted_); }

  // No case starts any more; those that run count.
  void lose_tier(const std::string& reason) {
    const std::lock_guard lock(mutex_);
    lost_ = reason;
  }
  std::string lost() const {
    const std::lock_guard lock(mutex_);
    return lost_;
  }
  bool reached() const { return stopped() || !lost().empty(); }

  // The first exception stops the campaign, and is thrown where it ends.
  void fail(std::exception_ptr exception) {
    const std::lock_guard lock(mutex_);
    if (!exception_) exception_ = std::move(exception);
    stopped_ = true;
  }
  void rethrow() const {
    const std::lock_guard lock(mutex_);
    if (exception_) std::rethrow_exception(exception_);
  }

 private:
  const std::atomic<bool>* interrupted_ = nullptr;
  std::atomic<bool> stopped_ = false;
  mutable std::mutex mutex_;
  std::string lost_;
  std::exception_ptr exception_;
};

}  // namespace lockstep
