// The log of a replica about its buckets and passes in the course of a ProgramSpec, and the
// expected one; docs/semantics.md 1.5 and 2.2.
#pragma once

#include "harness/rank/rank_context.h"
#include "harness/verdict/compare.h"
#include "reference/buckets.h"
#include "scenarios/programs/expected/follow.h"

#include <span>

namespace lockstep::scenarios::programs {

// True if ranks record it behind this action.
bool is_logged(const Action& action);

// Records it; without a replica rows without values.
void record_log(RankContext& here, int model, const Replica* replica);

// The log of one model on all ranks.
class FollowedLog {
 public:
  FollowedLog(const ProgramSpec& c, const FollowedModel& model, int number);

  // `model` has followed the action, and its ranks have recorded `h`.
  void follow(const Action& action, const FollowedModel& model, const History& h);

  // The rows at a moment; none of a subject that keeps no log. `action`: the one after which it is,
  // if any.
  std::vector<Comparison> rows(const History& h, const Moment& at, const Action* action) const;

 private:
  struct Rank {
    bool is_rebuilt = false, has_joined = false;
    // Unknown where the rank whose gradients decide took no part in the last step.
    std::optional<reference::Buckets> rebuilt;
    int64_t iteration = 0;
    int64_t in_group = 0, group_size = 1;  // its number there
    // The counts of the last pass; unknown where a static graph or skipped buckets decide.
    std::optional<int64_t> unused_bytes = 0, reduced_count = 0;
  };
  using Values = std::optional<std::vector<int64_t>>;  // none: not known
  struct Part {
    const char* name;
    std::vector<int64_t> (*recorded)(const ReplicaLog& log);
    Values (*expected)(const FollowedLog& all, const Rank& rank);
  };
  static std::span<const Part> parts();
  friend void record_log(RankContext& here, int model, const Replica* replica);
  void wrap(const FollowedModel& model);
  void begin_anew(const FollowedModel& model);
  void rebuild(const std::vector<int>& group, const Action& action, const History& h);
  void end_pass(const std::vector<int>& group, const FollowedModel& model);
  std::vector<int64_t> sizes_of(const reference::Buckets& buckets) const;
  std::vector<int64_t> dtypes() const;
  template <class SaidOf>
  static Values of_rebuilt(const Rank& rank, const SaidOf& said_of);
  Rank& at(int rank) { return ranks_[static_cast<size_t>(rank)]; }

  const ProgramSpec& c_;
  const int number_;
  std::vector<int64_t> caps_;
  std::vector<reference::TravellingGradient> of_all_;   // by parameter
  std::vector<size_t> numbers_;                         // the parameters that are reduced
  std::vector<reference::TravellingGradient> reduced_;  // their gradients
  reference::Buckets first_;
  std::vector<int64_t> constructed_;  // bytes in buckets
  bool is_wrapped_ = true;
  std::vector<Rank> ranks_;
};

}  // namespace lockstep::scenarios::programs
