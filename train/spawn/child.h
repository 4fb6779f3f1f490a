#pragma once

#include "ddp/base/environment.h"

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <sys/types.h>

namespace lockstep {

// How a process of spawn() failed.
struct SpawnFailure {
  std::string sentence;
  // It failed since a peer did: a CommunicationError.
  bool is_consequence = false;
  // When it threw, by the monotonic clock; zero where it ended without a report.
  std::int64_t moment_ns = 0;

  bool operator<(const SpawnFailure& other) const;
};

// One process of spawn(): forked by start(), and looked at until it has ended. Everything is Local.
class Child {
 public:
  // Forks a process that runs `function(rank)` and ends; `store_socket` is closed in it. Throws
  // Error where there can be no process.
  static Child start(const RankAndSize& position, const RendezvousAddress& point, int store_socket,
                     const std::function<void(int rank)>& function);
  Child(Child&& other) noexcept;
  Child& operator=(Child&&) = delete;
  ~Child();

  int rank() const { return position_.rank; }

  // True if it has ended. Does not block.
  bool look();

  void send_terminate();
  void kill_and_wait();

  // Set when a process has ended badly.
  const std::optional<SpawnFailure>& failure() const { return failure_; }

 private:
  Child(const RankAndSize& position, pid_t pid, int report)
      : position_(position), pid_(pid), report_(report) {}

  void take_status(int status);

  RankAndSize position_;
  pid_t pid_;   // 0: it has ended, and was waited for
  int report_;  // the reading end of its pipe
  std::optional<SpawnFailure> failure_;
};

}  // namespace lockstep
