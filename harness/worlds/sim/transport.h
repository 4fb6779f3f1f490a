// Carries the collectives of simulated ranks: matches them, and the last rank to arrive computes
// the result for all.
//
// PyTorch's own Reducer waits for an ivalue::Future, a wait that cannot be intercepted: getFuture()
// of a collective of this transport therefore blocks until it is over.
#pragma once

#include "harness/rank/tap.h"
#include "harness/worlds/sim/arithmetic.h"
#include "harness/worlds/sim/arrival.h"
#include "harness/worlds/sim/collective_matcher.h"
#include "harness/worlds/sim/links.h"

#include <deque>
#include <map>
#include <memory>

namespace lockstep::sim {

// The state that the members of one group share.
class SharedGroup {
 public:
  using Pointer = std::shared_ptr<SharedGroup>;
  // Finds the world's group of that name and of those ranks, for splits of a group.
  using Find = std::function<Pointer(const std::string& name, const std::vector<int>& ranks)>;

  // `ranks` are the members' ranks in the world. `scheduler` and `links` outlive the group.
  SharedGroup(const std::string& name, const std::vector<int>& ranks, const ReductionOrder& order,
              const Arrival& arrival, const Links& links, Scheduler& scheduler, Find find);

  // The group as `member` sees it: its collectives go into `log`.
  static c10::intrusive_ptr<c10d::ProcessGroup> joined_by(const std::shared_ptr<SharedGroup>& group,
                                                          int member,
                                                          const c10::intrusive_ptr<c10d::Store>&,
                                                          const std::shared_ptr<TapLog>& log);

  // The rank of the world has ended, as `how` says: ranks that wait for it receive the error.
  void leave(int rank, const std::string& how);

 private:
  friend class DeviceSlot;
  struct RankArguments {
    Call call;
    Collective issued;
    std::shared_ptr<TapLog> log;
    std::vector<at::Tensor> result;  // that has not arrived in the member's own tensors
  };
  using PendingCollective = sim::PendingCollective<RankArguments>;

  // A send or recv that the other side has not matched.
  struct Message {
    RankArguments brought;
    int from = 0;
    Nanoseconds posted{};
    Event over;
    std::string error;
  };
  using MessagePtr = std::shared_ptr<Message>;

  void complete(PendingCollective& session);
  bool arrives_late(const PendingCollective& session, size_t member) const;
  MessagePtr send(int member, RankArguments brought);
  MessagePtr receive(int member, RankArguments brought);
  void deliver(Message& sent, Message& received);
  void fail_if_gone(Message& message, int peer);

  const std::string name_;
  const Find find_;
  const ReductionOrder order_;
  const Arrival arrival_;
  const Links& links_;
  Scheduler& scheduler_;
  CollectiveMatcher<RankArguments> matcher_;
  Nanoseconds busy_until_{};  // collectives of a group are carried one after another
  std::deque<MessagePtr> sent_, wanted_;
  std::map<int, std::string> gone_;  // by member
};

}  // namespace lockstep::sim
