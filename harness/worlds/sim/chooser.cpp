#include "harness/worlds/sim/chooser.h"

#include "harness/base/values.h"

#include <algorithm>

namespace lockstep::sim {

namespace {

// The purpose of a number drawn from a schedule's seed.
constexpr uint64_t kNext = 0, kPriority = 1, kChange = 2;

// Priorities change within this many choices for each rank.
constexpr uint64_t kChangesWithin = 32;

uint64_t drawn(const Schedule& schedule, uint64_t purpose, uint64_t index) {
  return bits_at(
      {.seed = schedule.seed, .stream = Stream::schedule, .rank = purpose, .index = index});
}

}  // namespace

Chooser::Chooser(const Schedule& schedule, int ranks) : schedule_(schedule) {
  if (schedule.policy != SchedulePolicy::priority) return;
  const auto count = static_cast<uint64_t>(ranks);
  // The highest bit is set for ranks that were not moved to the end.
  for (uint64_t rank = 0; rank < count; ++rank)
    priority_.push_back(drawn(schedule, kPriority, rank) | uint64_t{1} << 63);
  for (int change = 0; change < schedule.changes; ++change)
    changes_.push_back(drawn(schedule, kChange, static_cast<uint64_t>(change)) %
                       (kChangesWithin * count));
}

int Chooser::choose(const std::vector<int>& runnable) {
  if (runnable.size() == 1) return runnable.front();
  const size_t index = index_among(runnable);
  if (choices_.size() < kKeptMost)
    choices_.push_back({static_cast<int>(index), static_cast<int>(runnable.size())});
  ++made_;
  return runnable[index];
}

size_t Chooser::index_among(const std::vector<int>& runnable) {
  if (schedule_.policy == SchedulePolicy::uniform)
    return drawn(schedule_, kNext, made_) % runnable.size();
  if (schedule_.policy == SchedulePolicy::priority) return first_in_priority(runnable);
  if (made_ >= schedule_.choices.size()) return 0;
  return static_cast<size_t>(schedule_.choices[made_]) % runnable.size();
}

size_t Chooser::first_in_priority(const std::vector<int>& runnable) {
  const auto priority = [&](int rank) -> uint64_t& { return priority_[static_cast<size_t>(rank)]; };
  const auto first = [&] {
    return std::max_element(runnable.begin(), runnable.end(),
                            [&](int a, int b) { return priority(a) < priority(b); });
  };
  // A rank that is moved to the end comes after all that were moved before.
  for (size_t i = 0; i < changes_.size(); ++i)
    if (changes_[i] == made_) priority(*first()) = changes_.size() - i;
  return static_cast<size_t>(first() - runnable.begin());
}

}  // namespace lockstep::sim
