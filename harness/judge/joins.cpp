#include "harness/judge/joins.h"

#include <algorithm>
#include <limits>
#include <map>

namespace lockstep::recorded {

namespace {

// The joins that all ranks ended, before the first that one did not.
size_t ended_everywhere(const RecordedRun& run) {
  const auto ended = [](const Rank& rank) {
    const auto first = std::find_if(rank.joins.begin(), rank.joins.end(),
                                    [](const Join& join) { return !join.has_ended; });
    return static_cast<size_t>(first - rank.joins.begin());
  };
  size_t count = ended(run.ranks.front());
  for (const auto& rank : run.ranks) count = std::min(count, ended(rank));
  return count;
}

int updates_in(const Join& join) {
  return join.to_step - join.from_step;
}

struct Lengths {
  int least = 0, most = 0;
};

Lengths lengths_of(const RecordedRun& run, size_t join) {
  Lengths lengths{updates_in(run.ranks.front().joins[join]), 0};
  for (const auto& rank : run.ranks) {
    lengths.least = std::min(lengths.least, updates_in(rank.joins[join]));
    lengths.most = std::max(lengths.most, updates_in(rank.joins[join]));
  }
  return lengths;
}

// Backwards after the rank's last update in the join.
int left_over_in(const Rank& rank, const Join& join) {
  int count = 0;
  for (size_t record = join.from_record; record < join.to_record; ++record) {
    const auto& each = rank.records[record];
    const auto* fact = std::get_if<Fact>(&each.what);
    count += fact && fact->name == "backward" && each.at.step == join.to_step ? 1 : 0;
  }
  return count;
}

// Then the next update's backwards would have other numbers in their step.
bool leave_over_unequally(const RecordedRun& run, size_t join) {
  const auto left_over = [&](const Rank& rank) { return left_over_in(rank, rank.joins[join]); };
  return std::any_of(run.ranks.begin(), run.ranks.end(), [&](const Rank& rank) {
    return left_over(rank) != left_over(run.ranks.front());
  });
}

// Leaves out the join's events from its step `least` on, which the first rank to run out shadowed.
void leave_out_shadows(Rank& rank, const Join& join, int least) {
  const auto is_shadow = [&](size_t event) {
    return event >= join.from_event && event < join.to_event &&
           rank.history.events[event].at.step - join.from_step >= least;
  };
  std::vector<Event> kept;
  std::map<std::string, int64_t> left_out;  // by group
  for (size_t event = 0; event < rank.history.events.size(); ++event) {
    auto* const collective = std::get_if<Collective>(&rank.history.events[event].what);
    if (is_shadow(event)) {
      if (collective) ++left_out[collective->group];
      continue;
    }
    if (collective) collective->sequence -= left_out[collective->group];
    kept.push_back(std::move(rank.history.events[event]));
  }
  rank.history.events = std::move(kept);
}

void shift_all_after(Rank& rank, const Join& join, int steps) {  // at least 0
  const auto shift = [steps](Moment& at) {
    at.step += std::min(steps, std::numeric_limits<int>::max() - at.step);
  };
  for (size_t record = join.to_record; record < rank.records.size(); ++record)
    shift(rank.records[record].at);
  for (size_t event = join.to_event; event < rank.history.events.size(); ++event)
    shift(rank.history.events[event].at);
  shift(rank.history.last);
}

}  // namespace

std::optional<RecordedRun> with_joins_aligned(const RecordedRun& run) {
  std::optional<RecordedRun> aligned;
  for (auto join = ended_everywhere(run); join-- > 0;) {  // the last first: it moves no other
    const auto lengths = lengths_of(run, join);
    const bool begins_a_step = leave_over_unequally(run, join);
    if (lengths.least == lengths.most && !begins_a_step) continue;
    if (!aligned) aligned = run;
    for (auto& rank : aligned->ranks) {
      const auto& is = rank.joins[join];
      const int shadowed = lengths.most - updates_in(is);
      rank.shadowed += static_cast<size_t>(shadowed);
      shift_all_after(rank, is, shadowed);
      if (begins_a_step) shift_all_after(rank, is, 1);
      leave_out_shadows(rank, is, lengths.least);
    }
  }
  return aligned;
}

}  // namespace lockstep::recorded
