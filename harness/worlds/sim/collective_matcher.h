// Matches the collectives of the ranks of a group in a simulated world: every member's n-th matches
// every other's n-th. A mismatch is found as it arrives. No torch.
#pragma once

#include "harness/verdict/trace.h"
#include "harness/worlds/sim/scheduler.h"

#include <algorithm>
#include <map>
#include <optional>

namespace lockstep::sim {

// One collective of all members. `RankArguments` is a member's part of it: its tensors.
template <class RankArguments>
struct PendingCollective {
  int64_t number = 0;
  std::vector<std::optional<Collective>> issued;      // by member
  std::vector<std::optional<RankArguments>> brought;  // by member
  Nanoseconds last_arrival{};
  int here = 0;
  size_t first = 0;  // the member that came first
  Event over;
  std::string error;  // why it failed; empty while it has not
};

// Only rank threads call it, of which one runs at a time.
template <class RankArguments>
class CollectiveMatcher {
 public:
  using PendingPtr = std::shared_ptr<PendingCollective<RankArguments>>;

  // `ranks` are the members' ranks in the world; `scheduler` outlives the matcher.
  CollectiveMatcher(std::string group, std::vector<int> ranks, Scheduler& scheduler)
      : group_(std::move(group)),
        ranks_(std::move(ranks)),
        scheduler_(scheduler),
        joined_(ranks_.size(), 0),
        left_(ranks_.size()) {}

  const std::vector<int>& ranks() const { return ranks_; }

  // Adds `member` to its next session. The session is over at once if it cannot succeed: the ranks
  // issued different collectives, or a member that has not joined has ended.
  PendingPtr join(int member, const Collective& issued, RankArguments brought) {
    const auto at = static_cast<size_t>(member);
    const auto session = session_at(joined_[at]++);
    session->issued[at] = issued;
    session->brought[at] = std::move(brought);
    session->last_arrival = std::max(session->last_arrival, scheduler_.now());
    if (session->here++ == 0) session->first = at;
    if (session->here == static_cast<int>(ranks_.size())) open_.erase(session->number);
    if (!session->error.empty()) return session;
    const auto& first = *session->issued[session->first];
    if (const auto differs = difference(ranks_[session->first], first, ranks_[at], issued))
      fail(*session, place_of(session->number, group_) + " differs: " + *differs);
    else if (somebody_left_)
      fail_for_the_gone(*session);
    return session;
  }

  // True if every member joined and nothing was wrong.
  bool is_complete(const PendingCollective<RankArguments>& session) const {
    return session.here == static_cast<int>(ranks_.size()) && session.error.empty();
  }

  void fail(PendingCollective<RankArguments>& session, const std::string& error) {
    session.error = error;
    scheduler_.happen(session.over, session.last_arrival);
  }

  // The member of that rank has ended, as `how` says, and joins no further session.
  void leave(int rank, const std::string& how) {
    const auto member = std::find(ranks_.begin(), ranks_.end(), rank) - ranks_.begin();
    if (static_cast<size_t>(member) == ranks_.size()) return;
    left_[static_cast<size_t>(member)] = how;
    somebody_left_ = true;
    // A copy, which keeps each session alive while it fails.
    for (const auto& [number, session] : std::map(open_))
      if (session->error.empty()) fail_for_the_gone(*session);
  }

  // "collective #3, allreduce of 6 float32; rank 2 has not come".
  std::string waiting_text(const PendingCollective<RankArguments>& session, int member) const {
    std::string missing;
    int count = 0;
    const bool all_came = session.here == static_cast<int>(ranks_.size());
    for (size_t i = 0; !all_came && i < ranks_.size(); ++i) {
      if (session.issued[i]) continue;
      missing += (count++ == 0 ? "" : ", ") + std::to_string(ranks_[i]);
    }
    const auto& own = *session.issued[static_cast<size_t>(member)];
    return place_of(session.number, group_) + ", " + text_of(own) +
           (count == 0 ? ""
                       : (count == 1 ? "; rank " : "; ranks ") + missing +
                             (count == 1 ? " has not come" : " have not come"));
  }

 private:
  PendingPtr session_at(int64_t number) {
    auto& session = open_[number];
    if (!session) {
      session = std::make_shared<PendingCollective<RankArguments>>();
      session->number = number;
      session->issued.resize(ranks_.size());
      session->brought.resize(ranks_.size());
    }
    return session;
  }

  void fail_for_the_gone(PendingCollective<RankArguments>& session) {
    for (size_t i = 0; i < ranks_.size(); ++i)
      if (!left_[i].empty() && !session.issued[i])
        return fail(session, "rank " + std::to_string(ranks_[i]) + " never came to " +
                                 place_of(session.number, group_) + ": " + left_[i]);
  }

  const std::string group_;
  const std::vector<int> ranks_;
  Scheduler& scheduler_;
  std::vector<int64_t> joined_;    // by member: how many it has joined
  std::vector<std::string> left_;  // by member: how it ended; empty if it has not
  bool somebody_left_ = false;
  std::map<int64_t, PendingPtr> open_;  // that not every member has joined
};

}  // namespace lockstep::sim
