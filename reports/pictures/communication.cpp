#include "reports/pictures/communication.h"

#include "harness/base/text.h"
#include "harness/verdict/ladders.h"
#include "harness/verdict/trace.h"
#include "reports/pictures/aggregate.h"
#include "reports/style.h"

#include <algorithm>

namespace lockstep::reports {

namespace {

constexpr int64_t kRungsBefore = 6, kRungsBehind = 3;
constexpr size_t kLayoutsMost = 3;
constexpr size_t kNamesMost = 24;  // letters of parameters in a cell, for which a phone has room

// "allreduce 6", of a bucket "allreduce 6, bucket 1 of 2".
std::string short_text(const Collective& collective) {
  return collective.op + " " + with_commas(collective.elements) +
         (collective.bucket ? ", " + number_text(*collective.bucket) : "");
}

// The collective that most ranks issued on a rung.
const Collective& common(const Rung& rung) {
  const auto votes = [&](const Collective& one) {
    return std::count_if(rung.begin(), rung.end(),
                         [&](const auto& other) { return match(one, other.second); });
  };
  return std::max_element(
             rung.begin(), rung.end(),
             [&](const auto& a, const auto& b) { return votes(a.second) < votes(b.second); })
      ->second;
}

Cell cell_of(const Rung& rung, const Collective& wanted, int rank) {
  const auto found = rung.find(rank);
  if (found == rung.end()) return {"missing", Mark::missing};
  if (!match(wanted, found->second)) return {short_text(found->second), Mark::wrong};
  return found->second.done ? Cell{"done"} : Cell{"waits", Mark::repeated};
}

// The group to show: the one that diverges, else all ranks', else the first.
const std::pair<const std::string, Ladder>* shown_group(
    const std::map<std::string, Ladder>& all, const std::optional<FirstDivergence>& divergence) {
  const auto found = all.find(divergence ? divergence->group : std::string(kWorld));
  if (found != all.end()) return &*found;
  return all.empty() ? nullptr : &*all.begin();
}

}  // namespace

std::optional<Picture> ladder_picture(const History& history) {
  const auto all = ladders(history);
  const auto divergence = first_divergence_point(history);
  const auto* shown = shown_group(all, divergence);
  if (!shown || shown->second.empty()) return {};
  const auto& [group, rungs] = *shown;
  const auto members = members_of(group, rungs, history.size());
  const int64_t at = divergence ? divergence->sequence : rungs.begin()->first;
  Grid grid{.column_axis = group == kWorld ? "collective" : group,
            .columns = {{"", {}}},
            .rows = {{{"issued by most", kReference}, {}}}};
  for (const int rank : members) grid.rows.push_back({rank_label(rank), {}});
  size_t whole = 0, left_out = 0;
  for (const auto& [sequence, rung] : rungs) {
    whole += rung.size() == members.size() &&
                     std::all_of(rung.begin(), rung.end(),
                                 [](const auto& each) { return each.second.done; })
                 ? 1
                 : 0;
    if (sequence < at - kRungsBefore ||
        sequence > at + (divergence ? kRungsBehind : kRungsBefore)) {
      ++left_out;
      continue;
    }
    grid.columns[0].names.push_back("#" + std::to_string(sequence));
    const auto& wanted = common(rung);
    grid.rows[0].cells.push_back({short_text(wanted)});
    size_t row = 0;
    for (const int rank : members) grid.rows[++row].cells.push_back(cell_of(rung, wanted, rank));
  }
  const auto counts = std::to_string(whole) + " of " + counted(rungs.size(), "collective") +
                      " completed by every rank" +
                      (left_out == 0 ? "" : "; " + counted(left_out, "other") + " not drawn");
  return within_marks({.title = "Which rank issued which collective",
                       .caption = (divergence ? divergence->text + "; " : "") + counts,
                       .body = std::move(grid),
                       .key = {{Mark::missing, "never issued by this rank"},
                               {Mark::repeated, "issued, and never done"},
                               {Mark::wrong, "another collective than most ranks issued"}}});
}

std::optional<Picture> communication_picture(const History& history) {
  std::optional<int64_t> begin;
  int64_t end = 0;
  for (int rank = 0; rank < history.size(); ++rank)
    for (const auto& each : history.collectives(rank)) {
      if (each.times.queued_ns < 0) continue;
      begin = std::min(begin.value_or(each.times.queued_ns), each.times.queued_ns);
      end = std::max({end, each.times.queued_ns, each.times.done_ns});
    }
  if (!begin || end <= *begin) return {};
  const auto us = [&](int64_t ns) { return static_cast<double>(ns - *begin) / 1e3; };
  Lanes lanes{.time_axis = "microseconds", .lanes = {}};
  size_t unfinished = 0, timed = 0;
  for (int rank = 0; rank < history.size(); ++rank) {
    auto& lane = lanes.lanes.emplace_back(Lanes::Lane{rank_label(rank), {}});
    for (const auto& each : history.collectives(rank)) {
      if (each.times.queued_ns < 0) continue;
      const bool is_done = each.done && each.times.done_ns >= each.times.queued_ns;
      ++timed;
      unfinished += is_done ? 0 : 1;
      lane.spans.push_back({us(each.times.queued_ns), us(is_done ? each.times.done_ns : end),
                            "#" + std::to_string(each.sequence) + " " + each.op,
                            is_done ? Mark::plain : Mark::missing});
    }
  }
  return within_marks(
      {.title = "When each rank's collectives were under way",
       .caption = counted(timed, "collective") + " of " + counted(history.size(), "rank") +
                  " within " + number_text(us(end)) + " microseconds, " +
                  (unfinished == 0 ? "all" : std::to_string(timed - unfinished)) + " of them done",
       .body = std::move(lanes),
       .key = {{Mark::missing, "not known to be done"}}});
}

std::optional<Picture> bucket_picture(const History& history) {
  if (history.size() == 0) return {};
  std::vector<std::pair<Moment, const BucketLayout*>> layouts;
  for (const auto& event : history.ranks().front().events)
    if (const auto* layout = std::get_if<BucketLayout>(&event.what);
        layout && !layout->buckets.empty())
      layouts.emplace_back(event.at, layout);
  if (layouts.empty()) return {};
  const auto count = static_cast<int64_t>(layouts.size());
  layouts.resize(std::min(layouts.size(), kLayoutsMost));
  size_t most = 0;
  Grid grid{.column_axis = "launched", .columns = {}, .rows = {}};
  for (const auto& [at, layout] : layouts) {
    most = std::max(most, layout->buckets.size());
    grid.columns.push_back({"from step " + std::to_string(at.step), {"gradients", "elements"}});
  }
  for (size_t bucket = 0; bucket < most; ++bucket) {
    auto& row = grid.rows.emplace_back(Grid::Row{{"bucket " + std::to_string(bucket)}, {}});
    for (const auto& [at, layout] : layouts) {
      if (bucket >= layout->buckets.size()) {
        row.cells.insert(row.cells.end(), 2, {""});
        continue;
      }
      const auto& is = layout->buckets[bucket];
      const auto names = joined(is.parameters, " ");
      row.cells.push_back(
          {names.size() <= kNamesMost ? names : counted(is.parameters.size(), "gradient")});
      row.cells.push_back({with_commas(is.elements)});
    }
  }
  const auto& first = layouts.front().second->buckets;
  int64_t gradients = 0;
  for (const auto& bucket : first) gradients += static_cast<int64_t>(bucket.parameters.size());
  return within_marks({.title = "Which gradients travel together, in the order of launch",
                       .caption = counted(gradients, "gradient") + " in " +
                                  counted(first.size(), "bucket") + " at first, and " +
                                  counted(count, "layout") + " in all",
                       .body = std::move(grid)});
}

}  // namespace lockstep::reports
