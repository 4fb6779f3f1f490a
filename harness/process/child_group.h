// Processes that live and die together: forked for one task, in their own process group, waited for
// until a deadline and killed as a group.
//
// Children die with the caller (PR_SET_PDEATHSIG), even under SIGKILL.
#pragma once

#include "harness/base/fields.h"
#include "harness/process/descriptor.h"
#include "harness/process/single_threaded.h"

#include <functional>
#include <string>
#include <sys/types.h>
#include <utility>
#include <vector>

namespace lockstep {

struct ChildEnd {
  enum class Kind {
    exited,     // code: its exit status
    signalled,  // code: the signal, its own or from outside the group
    stuck,      // ended at the deadline, with SIGTERM or SIGKILL
    cut_off,    // killed because a sibling had ended badly, or on request
  };
  Kind kind = Kind::exited;
  int code = 0;
  bool operator==(const ChildEnd&) const = default;
  static constexpr auto fields() {
    return std::tuple{field("kind", &ChildEnd::kind),
                      field("code", &ChildEnd::code, between(0, 255))};
  }
};

struct GroupWatch {
  std::chrono::steady_clock::time_point deadline;
  // A child that was signalled or exited with another status ended badly; -1: every exit is bad.
  int good_status = 0;
  // The time for the others to end after one child ended badly.
  std::chrono::milliseconds grace{1000};
  // The time between the SIGTERM at the deadline and SIGKILL: a child that handles SIGTERM can
  // still report something.
  std::chrono::milliseconds last_words{200};
  // Kill all as soon as this descriptor is readable or hung up; -1 for none.
  int stop_descriptor = -1;
  // One for each child, or none: a descriptor that is readable once the child has done its part and
  // lives on. Nothing is read from it.
  std::vector<int> reports = {};
  // Called once, in the caller, when the first child ended badly.
  std::function<void()> on_bad_end = nullptr;
  // Called at the deadline, before they are killed, with those that are still awaited.
  std::function<void(const std::vector<std::pair<int, pid_t>>& by_index)> on_deadline = nullptr;
};

struct GroupReport {
  std::vector<ChildEnd> ends;  // by index; {exited, 0} for one that has reported and lives
  bool stopped = false;        // through stop_descriptor
  int first_bad = -1;          // the child that ended badly first; -1: none did, or all were ended
};

class ChildGroup {
 public:
  // Forks `count` children; each runs `run(index)` and exits with what it returns. An exception out
  // of `run` is a SIGABRT, as out of a main function. Throws TierError if a fork fails, after
  // killing the children already forked.
  ChildGroup(const SingleThreaded& alone, int count, const std::function<int(int index)>& run);

  // Kills the remaining children and waits for them.
  ~ChildGroup();
  ChildGroup(const ChildGroup&) = delete;
  ChildGroup& operator=(const ChildGroup&) = delete;

  // Blocks until every child is gone or has reported. Do not call it again once a child is gone.
  GroupReport wait(const GroupWatch& watch);

  // Sends a signal to the whole process group, including processes that children started. Any
  // thread.
  void signal(int number) const;

  // True while every child exists.
  bool is_whole() const { return alive_ == static_cast<int>(children_.size()); }

 private:
  struct Child {
    pid_t pid = -1;
    Descriptor descriptor;  // a pidfd; closed once the child was waited for
    ChildEnd end;
  };
  // Children that are neither gone nor have reported.
  std::vector<size_t> awaited(const GroupWatch& watch) const;
  // `signal` is SIGTERM or SIGKILL; a child that ends from now on has ended for the reason `why`.
  void end_all(ChildEnd::Kind why, int signal);
  bool collect(Child& child);

  std::vector<Child> children_;
  int alive_ = 0;
  int sent_ = 0;  // the signal that was to end all; 0 before
  ChildEnd::Kind end_reason_ = ChildEnd::Kind::cut_off;
};

// From now on the children of dead descendants become children of this process.
void adopt_orphans();

// Kills and waits for every child this process still has, and their orphans; for a process that
// adopts orphans and whose children all belong to one finished task. Returns how many had to be
// killed. Throws TierError for one that outlives SIGKILL by more than ten seconds.
int end_descendants();

// "SIGSEGV"; "signal 99" for one without a name.
std::string signal_name(int signal);

}  // namespace lockstep
