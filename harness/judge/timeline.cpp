#include "harness/judge/timeline.h"

#include "harness/core/ladders.h"
#include "harness/core/trace.h"

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

// Who issued a rung last, and when. Nothing where a member did not issue it, where they issued
// different ones, or where a time is unknown.
std::optional<std::pair<int, int64_t>> last_on(const Rung& rung, size_t members) {
  const auto& first = rung.begin()->second;
  std::optional<std::pair<int, int64_t>> last;
  for (const auto& [rank, collective] : rung) {
    const auto at = collective.times.queued_ns;
    if (!is_known(at) || !match(first, collective)) return {};
    if (!last || at > last->second) last = {rank, at};
  }
  return rung.size() == members ? last : std::nullopt;
}

void add_waits(const RecordedRun& run, Timeline& timeline) {
  using Key = std::tuple<int, std::string, int64_t>;  // rank, group, sequence
  std::map<Key, TimedCollective*> all;
  for (size_t rank = 0; rank < timeline.ranks.size(); ++rank)
    for (auto& each : timeline.ranks[rank].collectives)
      all[{static_cast<int>(rank), each.is.group, each.is.sequence}] = &each;
  const auto history = run.history();
  for (const auto& [group, ladder] : ladders(history)) {
    const auto members = members_of(group, ladder, history.size()).size();
    for (const auto& [number, rung] : ladder) {
      const auto last = last_on(rung, members);
      if (!last || members < 2) continue;
      for (const auto& [rank, collective] : rung) {
        const auto found = all.find({rank, group, collective.sequence});
        if (found == all.end()) continue;
        auto& each = *found->second;
        each.last_rank = last->first;
        each.waited_ns = last->second - each.from_ns;
        if (each.to_ns >= 0) each.waited_ns = std::min(each.waited_ns, each.took_ns());
      }
    }
  }
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
    overlap.backward_ns += span.to_ns - span.from_ns;
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
