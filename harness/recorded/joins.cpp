#include "harness/recorded/joins.h"

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

// Those for which the rank had inputs.
int own_updates_in(const Join& join) {
  return join.out_step.value_or(join.to_step) - join.from_step;
}

struct Lengths {
  int least = 0, most = 0;
};

Lengths lengths_of(const RecordedRun& run, size_t join) {
  Lengths lengths{own_updates_in(run.ranks.front().joins[join]), 0};
  for (const auto& rank : run.ranks) {
    lengths.least = std::min(lengths.least, own_updates_in(rank.joins[join]));
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
    count += fact && fact->name == fact::kBackward && each.at.step == join.to_step ? 1 : 0;
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

// A join whose ranks are to be aligned.
struct Change {
  size_t join = 0;
  Lengths lengths;
  bool begins_a_step = false;  // what follows it

  int shadowed(const Rank& rank) const { return lengths.most - updates_in(rank.joins[join]); }
  int steps(const Rank& rank) const { return shadowed(rank) + (begins_a_step ? 1 : 0); }
};

std::vector<Change> changes_in(const RecordedRun& run) {
  std::vector<Change> changes;
  for (size_t join = 0, count = ended_everywhere(run); join < count; ++join) {
    const Change change{join, lengths_of(run, join), leave_over_unequally(run, join)};
    if (change.lengths.least != change.lengths.most || change.begins_a_step)
      changes.push_back(change);
  }
  return changes;
}

void shift(Moment& at, int64_t steps) {  // at least 0
  at.step = static_cast<int>(std::min<int64_t>(at.step + steps, std::numeric_limits<int>::max()));
}

// Moves each record behind the joins that it follows.
void shift_records(Rank& rank, const std::vector<Change>& changes) {
  int64_t steps = 0;
  auto next = changes.begin();
  for (size_t record = 0; record < rank.records.size(); ++record) {
    for (; next != changes.end() && rank.joins[next->join].to_record <= record; ++next)
      steps += next->steps(rank);
    shift(rank.records[record].at, steps);
  }
}

// Also leaves out each join's events from its step `least` on, which the first rank to run out
// shadowed.
void shift_events(Rank& rank, const std::vector<Change>& changes) {
  int64_t steps = 0;
  auto next = changes.begin();
  std::vector<Event> kept;
  std::map<std::string, int64_t> left_out;  // by group
  for (size_t event = 0; event < rank.history.events.size(); ++event) {
    for (; next != changes.end() && rank.joins[next->join].to_event <= event; ++next)
      steps += next->steps(rank);
    auto& each = rank.history.events[event];
    auto* const collective = std::get_if<Collective>(&each.what);
    const bool is_within = next != changes.end() && event >= rank.joins[next->join].from_event;
    if (is_within && each.at.step - rank.joins[next->join].from_step >= next->lengths.least) {
      if (collective) ++left_out[collective->group];
      continue;
    }
    if (collective) collective->sequence -= left_out[collective->group];
    shift(each.at, steps);
    kept.push_back(std::move(each));
  }
  rank.history.events = std::move(kept);
}

void align(Rank& rank, const std::vector<Change>& changes) {
  shift_records(rank, changes);
  shift_events(rank, changes);
  int64_t steps = 0;
  for (const auto& change : changes) {
    steps += change.steps(rank);
    rank.shadowed += static_cast<size_t>(change.shadowed(rank));
  }
  shift(rank.history.last, steps);
}

}  // namespace

std::optional<RecordedRun> with_joins_aligned(const RecordedRun& run) {
  const auto changes = changes_in(run);
  if (changes.empty()) return {};
  RecordedRun aligned = run;
  for (auto& rank : aligned.ranks) align(rank, changes);
  return aligned;
}

}  // namespace lockstep::recorded
