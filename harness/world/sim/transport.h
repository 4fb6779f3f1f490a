// Carries the collectives of simulated ranks: they meet, and the last to come does the arithmetic
// for all.
//
// PyTorch's own Reducer waits for an ivalue::Future, which nobody can intercept: asking a
// collective of this transport for its future therefore blocks until it is over.
#pragma once

#include "harness/world/sim/arithmetic.h"
#include "harness/world/sim/links.h"
#include "harness/world/sim/meeting.h"
#include "harness/world/tap.h"

#include <deque>
#include <map>
#include <memory>

namespace lockstep::sim {

// What the members of one group share.
class SharedGroup {
 public:
  using Pointer = std::shared_ptr<SharedGroup>;
  // The world's group of that name and of those ranks: what is split off a group is found by it.
  using Find = std::function<Pointer(const std::string& name, const std::vector<int>& ranks)>;

  // `ranks` are the members' ranks in the world. `scheduler` and `links` outlive the group.
  SharedGroup(const std::string& name, const std::vector<int>& ranks, const ReductionOrder& order,
              const Links& links, Scheduler& scheduler, Find find);

  // What `member` sees of it: its collectives go into `log`.
  static c10::intrusive_ptr<c10d::ProcessGroup> joined_by(const std::shared_ptr<SharedGroup>& group,
                                                          int member,
                                                          const c10::intrusive_ptr<c10d::Store>&,
                                                          const std::shared_ptr<TapLog>& log);

  // The rank of the world has ended, as `how` says: who waits for it learns so.
  void leave(int rank, const std::string& how);

 private:
  friend class Seat;
  struct Brought {
    Call call;
    Collective issued;
    std::shared_ptr<TapLog> log;
  };
  using Session = sim::Session<Brought>;

  // A send or recv that its other side has not come to.
  struct Message {
    Brought brought;
    int from = 0;
    Nanoseconds posted{};
    Event over;
    std::string error;
  };
  using MessagePtr = std::shared_ptr<Message>;

  void complete(Session& session);
  MessagePtr send(int member, Brought brought);
  MessagePtr receive(int member, Brought brought);
  void deliver(Message& sent, Message& received);
  void fail_if_gone(Message& message, int peer);

  const std::string name_;
  const Find find_;
  const ReductionOrder order_;
  const Links& links_;
  Scheduler& scheduler_;
  Meeting<Brought> meeting_;
  Nanoseconds busy_until_{};  // collectives of a group are carried one after another
  std::deque<MessagePtr> sent_, wanted_;
  std::map<int, std::string> gone_;  // by member
};

}  // namespace lockstep::sim
