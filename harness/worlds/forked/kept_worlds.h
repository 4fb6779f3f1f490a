// The worlds that a server keeps between cases: their processes, forked once, and their output.
#pragma once

#include "harness/worlds/forked/kept_group.h"
#include "harness/worlds/forked/workplace.h"

#include <functional>
#include <memory>
#include <vector>

namespace lockstep {

struct KeptWorld {
  std::shared_ptr<Capture> capture;  // of its ranks
  std::unique_ptr<KeptGroup> group;  // its processes die with it
  int64_t used = 0;                  // when last, as a count of cases; 0: never
};

class KeptWorlds {
 public:
  explicit KeptWorlds(Workplace& workplace) : workplace_(workplace) {}

  // One process of a world: it may redirect its output to `capture`, reads its orders from
  // `socket`, and exits with what this returns.
  using Serve = std::function<int(int index, KeptSocket& socket, Capture& capture)>;

  // Forks a world of so many ranks. It lives until end() or end_all(); do not hold it longer, since
  // its processes would count as left running.
  std::weak_ptr<KeptWorld> make(int processes, int ranks, const Serve& serve, int stop_descriptor);
  void end(const std::weak_ptr<KeptWorld>& world);
  void end_all() { all_.clear(); }

  // Likewise, with the processes that cases left running: they are now orphans, adopted by this
  // process, whose children are also the worlds. Returns how many they were.
  int end_all_and_left_running();

  // Blocks until a new world is ready; false if the lane was stopped meanwhile. Throws TierError,
  // which names `what`, and the process that failed and how, if it cannot be made.
  bool wait_until_ready(const KeptWorld& world, std::chrono::steady_clock::time_point deadline,
                        int stop_descriptor, const std::string& what);

  // Sends the text of `request` to every process of `world`, and blocks until each has reported or
  // is gone. Sets the group and the stacks of `reply`, by process.
  void run(KeptWorld& world, const CaseRequest& request, const std::string& text,
           int stop_descriptor, CaseReply& reply);

 private:
  Workplace& workplace_;
  std::vector<std::shared_ptr<KeptWorld>> all_;
  int64_t cases_ = 0;
};

// The next case that such a process receives; nothing at the end.
std::optional<CaseAssignment> next_case(KeptSocket& socket, const Workplace& workplace);

// The time for making a world, beyond the case's own: the case does not cause it.
inline constexpr std::chrono::seconds kMakingPatience{30};

}  // namespace lockstep
