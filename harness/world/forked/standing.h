// Processes that go on living between cases: the ranks of a warm world, or the host of simulated
// ones. Each has a socket, by which it says when it is ready, is told of each case, and reports.
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
class StandingSocket {
 public:
  explicit StandingSocket(int socket) : socket_(socket) {}

  // Says that this process is ready, the first time. Blocks for the next order; nothing at the end.
  std::optional<std::string> next();
  void report(const std::string& text);

 private:
  const int socket_;
  bool is_ready_ = false;
};

class StandingGroup {
 public:
  // Forks `processes`, of which each runs `serve(index, socket)` and exits with what it returns. It
  // inherits no socket but its own; `others` are groups that live already.
  StandingGroup(int processes, const std::function<int(int index, StandingSocket& socket)>& serve,
                const std::vector<const StandingGroup*>& others);

  // Blocks until all are ready, or not: see is_whole.
  GroupReport wait_until_ready(GroupWatch watch);

  // Sends the order to all, and blocks until each has reported or is gone.
  GroupReport play(const std::string& order, GroupWatch watch);

  // What process `index` reported of the last case; nothing if it is gone. Once a case.
  std::optional<std::string> report_of(int index) const;

  bool is_whole() const { return group_->is_whole(); }

 private:
  std::vector<Descriptor> sockets_;  // by index
  std::unique_ptr<ChildGroup> group_;
};

}  // namespace lockstep
