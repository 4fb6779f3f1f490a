// Processes that live on between cases: the ranks of a warm world, or the host of simulated ones.
// Each has a socket, over which it says when it is ready, receives each case, and reports.
#pragma once

#include "harness/process/child_group.h"
#include "harness/process/descriptor.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

// The other end, in one of these processes.
class KeptSocket {
 public:
  explicit KeptSocket(int socket) : socket_(socket) {}

  // Reports that this process is ready, the first time. Blocks for the next order; nothing at the
  // end.
  std::optional<std::string> next();
  void report(const std::string& text);

  // Reports why this process cannot become ready, and returns true; false where it was ready.
  bool report_problem(const std::string& why);

 private:
  const int socket_;
  bool is_ready_ = false;
};

class KeptGroup {
 public:
  // Forks `processes`, of which each runs `serve(index, socket)` and exits with what it returns.
  // Each inherits no socket but its own; `others` are groups that are alive already.
  KeptGroup(const SingleThreaded& alone, int processes,
            const std::function<int(int index, KeptSocket& socket)>& serve,
            const std::vector<const KeptGroup*>& others);

  // Blocks until all are ready or one has failed. Once.
  struct Readiness {
    GroupReport report;
    std::vector<std::string> problems;  // by index: what it reported instead; empty: nothing
    bool is_ready = false;              // all are
  };
  Readiness wait_until_ready(GroupWatch watch);

  // Sends the order to all, and blocks until each has reported or is gone.
  GroupReport run(const std::string& order, GroupWatch watch);

  // The report of process `index` on the last case; nothing if it is gone. Once a case.
  std::optional<std::string> report_of(int index) const;

  bool is_whole() const { return group_->is_whole(); }

 private:
  std::vector<Descriptor> sockets_;  // by index
  std::unique_ptr<ChildGroup> group_;
};

}  // namespace lockstep
