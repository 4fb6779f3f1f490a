#include "harness/timeline/timeline.h"

#include "harness/verdict/ladders.h"
#include "harness/verdict/trace.h"

#include <algorithm>
#include <map>

namespace lockstep::recorded {

namespace {

bool is_known(int64_t ns) {
  return ns >= 0 && ns <= kTimeMost;
}

// The times that a rank recorded; those that no clock can show count as unknown.
TimedCollective timed(Collective collective) {
  TimedCollective timed{.is = std::move(collective)};
  const auto& times = timed.is.times;
  if (is_known(times.queued_ns)) timed.from_ns = times.queued_ns;
  if (timed.is.done && is_known(times.done_ns) && times.done_ns >= timed.from_ns)
    timed.to_ns = times.done_ns;
  return timed;
}

std::vector<Step> steps_of(const Rank& rank) {
  std::vector<Step> steps;
  std::optional<int64_t> begin;
  for (const auto& record : rank.records) {
    const auto* span = std::get_if<Span>(&record.what);
    if (!span) continue;
    const auto from = begin.value_or(span->from_ns);
    begin = from;
    if (span->name != "update" || span->to_ns < from) continue;
    steps.push_back({record.at.step, from, span->to_ns});
    begin = span->to_ns;
  }
  return steps;
}

RankTimeline timeline_of(const Rank& rank) {
  RankTimeline timeline{.steps = steps_of(rank)};
  for (const auto& record : rank.records)
    if (const auto* span = std::get_if<Span>(&record.what)) timeline.spans.push_back(*span);
  for (const auto& event : rank.history.events)
    if (const auto* collective = std::get_if<Collective>(&event.what))
      if (auto one = timed(*collective); one.from_ns >= 0)
        timeline.collectives.push_back(std::move(one));
  return timeline;
}

// A collective of a rank, and what the timeline has of it; null where its time is unknown.
struct Issued {
  const Collective* is = nullptr;
  TimedCollective* timed = nullptr;
};

using ByRank = std::map<size_t, std::vector<Issued>>;  // each rank's of one group, in order

std::map<std::string, ByRank> issued_by_group(const RecordedRun& run, Timeline& timeline) {
  std::map<std::string, ByRank> groups;
  for (size_t rank = 0; rank < run.ranks.size(); ++rank) {
    auto timed = timeline.ranks[rank].collectives.begin();
    for (const auto& event : run.ranks[rank].history.events) {
      const auto* collective = std::get_if<Collective>(&event.what);
      if (!collective) continue;
      auto* const known = is_known(collective->times.queued_ns) ? &*timed++ : nullptr;
      if (!is_point_to_point(collective->op))
        groups[collective->group][rank].push_back({collective, known});
    }
  }
  return groups;
}

// The rank that issued the `number`-th collective of a group last. None where they issued different
// ones, or where a time is unknown.
std::optional<size_t> last_to_issue(const ByRank& group, size_t number) {
  const auto& first = *group.begin()->second[number].is;
  std::optional<std::pair<int64_t, size_t>> last;
  for (const auto& [rank, issued] : group) {
    const auto& [collective, timed] = issued[number];
    if (!timed || !match(first, *collective)) return {};
    if (!last || timed->from_ns > last->first) last = {timed->from_ns, rank};
  }
  return last->second;
}

// The collectives that all members issued, of whom those are known that issued any.
void add_waits_of(const ByRank& group) {
  size_t count = group.begin()->second.size();
  for (const auto& [rank, issued] : group) count = std::min(count, issued.size());
  for (size_t number = 0; number < count; ++number) {
    const auto last = last_to_issue(group, number);
    if (!last) continue;
    const auto issued_ns = group.at(*last)[number].timed->from_ns;
    for (const auto& [rank, issued] : group) {
      auto& each = *issued[number].timed;
      each.last_rank = static_cast<int>(*last);
      each.waited_ns = issued_ns - each.from_ns;
      if (each.to_ns >= 0) each.waited_ns = std::min(each.waited_ns, each.took_ns());
    }
  }
}

void add_waits(const RecordedRun& run, Timeline& timeline) {
  for (const auto& [name, group] : issued_by_group(run, timeline))
    if (group.size() > 1 && (name != kWorld || group.size() == run.ranks.size()))
      add_waits_of(group);
}

bool have_one_clock(const RecordedRun& run) {
  const Rank* first = nullptr;
  for (const auto& rank : run.ranks) {
    if (!rank.is_there) continue;
    if (!first) first = &rank;
    if (rank.clock != first->clock) return false;
  }
  return true;
}

void find_ends(Timeline& timeline) {
  bool is_first = true;
  const auto take = [&](int64_t from, int64_t to) {
    timeline.begin_ns = is_first ? from : std::min(timeline.begin_ns, from);
    timeline.end_ns = is_first ? to : std::max(timeline.end_ns, to);
    is_first = false;
  };
  for (const auto& rank : timeline.ranks) {
    for (const auto& span : rank.spans) take(span.from_ns, span.to_ns);
    for (const auto& each : rank.collectives)
      take(each.from_ns, std::max(each.from_ns, each.to_ns));
  }
}

}  // namespace

bool stands_for_others(const Collective& collective) {
  return collective.op.starts_with("ddp_");
}

Timeline timeline_of(const RecordedRun& run) {
  Timeline timeline{.has_one_clock = have_one_clock(run)};
  for (const auto& rank : run.ranks) timeline.ranks.push_back(timeline_of(rank));
  if (timeline.has_one_clock) add_waits(run, timeline);
  find_ends(timeline);
  return timeline;
}

Overlap overlap_of(const RankTimeline& rank) {
  Overlap overlap;
  std::vector<const TimedCollective*> seen;
  for (const auto& each : rank.collectives)
    if (each.to_ns >= 0 && !stands_for_others(each.is)) seen.push_back(&each);
  std::sort(seen.begin(), seen.end(),
            [](const auto* a, const auto* b) { return a->from_ns < b->from_ns; });
  for (const auto& span : rank.spans) {
    if (span.name != "backward") continue;
    auto at = std::lower_bound(seen.begin(), seen.end(), span.from_ns,
                               [](const auto* each, int64_t ns) { return each->from_ns < ns; });
    int64_t busy_until = span.from_ns, last_issue = span.from_ns, busy = 0;
    for (; at != seen.end() && (*at)->from_ns <= span.to_ns; ++at) {
      const auto to = std::min((*at)->to_ns, span.to_ns);
      const auto from = std::max((*at)->from_ns, busy_until);
      busy += std::max<int64_t>(to - from, 0);
      busy_until = std::max(busy_until, to);
      last_issue = (*at)->from_ns;
      ++overlap.collectives;
    }
    const auto exposed = std::max<int64_t>(busy_until - last_issue, 0);
    overlap.exposed_ns += exposed;
    overlap.overlapped_ns += busy - std::min(busy, exposed);
  }
  return overlap;
}

}  // namespace lockstep::recorded
