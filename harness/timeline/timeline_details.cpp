#include "harness/base/text.h"
#include "harness/invariants/optimizers/settings.h"
#include "harness/invariants/rows.h"
#include "harness/timeline/timeline.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <set>

namespace lockstep::recorded {

namespace {

using Holds = Table::Holds;

constexpr size_t kRanksShown = 16, kPairsShown = 8, kKindsShown = 32;

std::string number_text(double number, const char* unit) {
  char text[64];
  std::snprintf(text, sizeof(text), "%.*f %s",
                number < 10    ? 2
                : number < 100 ? 1
                               : 0,
                number, unit);
  return text;
}

std::string time_text(double ns) {
  if (ns < 1e6) return number_text(ns / 1e3, "us");
  return ns < 1e9 ? number_text(ns / 1e6, "ms") : number_text(ns / 1e9, "s");
}

std::string bytes_text(double bytes) {
  if (bytes < 1e3) return number_text(bytes, "B");
  if (bytes < 1e6) return number_text(bytes / 1e3, "kB");
  return bytes < 1e9 ? number_text(bytes / 1e6, "MB") : number_text(bytes / 1e9, "GB");
}

Table::Cell unknown() {
  return {"unknown"};
}

Table::Cell time_cell(double ns) {
  return {time_text(ns), ns};
}

Table::Cell count_cell(size_t count) {
  return {with_commas(static_cast<int64_t>(count)), static_cast<double>(count)};
}

// All collectives of one kind, of all ranks.
struct Traffic {
  size_t count = 0;  // of the rank that issued most
  double bytes = 0, took = 0, waited = 0;
  bool has_bytes = true;
  size_t unfinished = 0;
};

std::map<std::string, Traffic> traffic_in(const Timeline& timeline) {
  std::map<std::string, Traffic> kinds;
  for (const auto& rank : timeline.ranks) {
    std::map<std::string, size_t> counts;
    for (const auto& each : rank.collectives) {
      auto& kind = kinds[each.is.op];
      kind.count = std::max(kind.count, ++counts[each.is.op]);
      kind.took += static_cast<double>(each.took_ns());
      kind.waited += static_cast<double>(each.waited_ns);
      kind.unfinished += each.to_ns < 0 ? 1 : 0;
      const auto bytes = traits_of(each.is.dtype).bytes;
      kind.bytes += static_cast<double>(bytes) * static_cast<double>(each.is.elements);
      kind.has_bytes = kind.has_bytes && (bytes > 0 || each.is.elements == 0);
    }
  }
  return kinds;
}

void add_traffic(const Timeline& timeline, Details& lines) {
  const auto ranks = static_cast<double>(timeline.ranks.size());
  Table table{.columns = {{"collectives", Holds::name},
                          {"number"},
                          {"sent by a rank"},
                          {"time of a rank"},
                          {"of it waiting for the last"}},
              .rows = {}};
  const auto kinds = traffic_in(timeline);
  for (const auto& [op, kind] : kinds) {
    if (table.rows.size() == kKindsShown) break;
    const double bytes = kind.bytes / ranks;
    auto& row = table.rows.emplace_back();
    row.cells = {{excerpt(op)},
                 count_cell(kind.count),
                 kind.has_bytes ? Table::Cell{bytes_text(bytes), bytes} : unknown(),
                 time_cell(kind.took / ranks),
                 timeline.has_one_clock ? time_cell(kind.waited / ranks) : unknown()};
    if (kind.unfinished > 0)
      row.remark = with_commas(static_cast<int64_t>(kind.unfinished)) + " not known to be done";
  }
  if (table.rows.empty()) {
    lines.push_back("no collective was recorded with its time");
    return;
  }
  lines.push_back(std::move(table));
  if (kinds.size() > kKindsShown)
    lines.push_back("and " + std::to_string(kinds.size() - kKindsShown) + " kinds more");
}

void add_times(const Timeline& timeline, Details& lines) {
  static constexpr std::array kNames{"data", "forward", "backward", "update"};
  Table table{.columns = {{"time", Holds::name}}, .rows = {}};
  for (const auto* const heading :
       {"updates", "data", "forward", "backward", "update", "overlapped", "exposed"})
    table.columns.push_back({heading});
  for (size_t number = 0; number < std::min(timeline.ranks.size(), kRanksShown); ++number) {
    const auto& rank = timeline.ranks[number];
    auto& row = table.rows.emplace_back();
    row.rank = static_cast<int>(number);
    row.cells = {{"rank " + std::to_string(number)}, count_cell(rank.steps.size())};
    for (const char* const name : kNames) {
      std::optional<double> total;
      for (const auto& span : rank.spans)
        if (span.name == name)
          total = total.value_or(0) + static_cast<double>(span.to_ns - span.from_ns);
      row.cells.push_back(total ? time_cell(*total) : unknown());
    }
    const auto overlap = overlap_of(rank);
    for (const auto ns : {overlap.overlapped_ns, overlap.exposed_ns})
      row.cells.push_back(overlap.collectives == 0 ? unknown()
                                                   : time_cell(static_cast<double>(ns)));
  }
  lines.push_back(std::move(table));
  if (timeline.ranks.size() > kRanksShown)
    lines.push_back("and " + std::to_string(timeline.ranks.size() - kRanksShown) + " ranks more");
}

struct Wait {
  int64_t ns = 0;
  size_t collectives = 0;
};

void add_waits(const Timeline& timeline, Details& lines) {
  if (!timeline.has_one_clock) {
    lines.push_back(
        "The ranks recorded on several machines, whose clocks cannot be compared: which rank "
        "waited "
        "for which is unknown.");
    return;
  }
  std::map<std::pair<int, int>, Wait> waits;  // by the rank that waits, and the last one
  for (size_t rank = 0; rank < timeline.ranks.size(); ++rank)
    for (const auto& each : timeline.ranks[rank].collectives)
      if (each.waited_ns > 0) {
        auto& wait = waits[{static_cast<int>(rank), each.last_rank}];
        wait.ns += each.waited_ns;
        ++wait.collectives;
      }
  std::vector<std::pair<std::pair<int, int>, Wait>> sorted(waits.begin(), waits.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second.ns > b.second.ns; });
  for (size_t i = 0; i < std::min(sorted.size(), kPairsShown); ++i) {
    const auto& [ranks, wait] = sorted[i];
    lines.push_back("rank " + std::to_string(ranks.first) + " waited " +
                    time_text(static_cast<double>(wait.ns)) + " for rank " +
                    std::to_string(ranks.second) + ", in " +
                    counted(wait.collectives, "collective"));
  }
  if (sorted.size() > kPairsShown)
    lines.push_back("and " + std::to_string(sorted.size() - kPairsShown) +
                    " pairs of ranks with shorter waits");
}

// Models that were reduced in more backwards than updates took.
void add_reductions(const Rank& rank, Details& lines) {
  std::map<std::string, size_t> reduced, updated;
  for (const auto& record : rank.records) {
    const auto* fact = std::get_if<Fact>(&record.what);
    if (!fact) continue;
    if (fact->name == fact::kBackward && fact->text("kind") == "synchronised")
      ++reduced[fact->text("model")];
    if (!is_optimizer(fact->name)) continue;
    std::set<std::string> models;
    for (const auto& [model, parameter] : owned_in(*fact)) models.insert(model);
    for (const auto& model : models) ++updated[model];
  }
  const bool has_more = std::any_of(reduced.begin(), reduced.end(), [&](const auto& of) {
    return updated[of.first] > 0 && of.second > updated[of.first];
  });
  if (!has_more) return;
  lines.push_back("");
  for (const auto& [model, backwards] : reduced) {
    const auto needed = updated[model];
    lines.push_back(one_line(model) + " was reduced in " + counted(backwards, "backward") +
                    (backwards > needed
                         ? ", where " + counted(needed, "update") + " needed " +
                               std::to_string(needed) + ": no_sync() leaves the others out"
                         : ""));
  }
}

bool has_unseen(const Timeline& timeline) {
  for (const auto& rank : timeline.ranks)
    for (const auto& each : rank.collectives)
      if (each.is.op == "ddp_backward") return true;
  return false;
}

}  // namespace

Details timeline_details(const RecordedRun& run, const Timeline& timeline) {
  std::string program;
  for (const auto& rank : run.ranks)
    if (!rank.program.empty()) program = rank.program + ", ";
  std::string of_all = program + counted(run.ranks.size(), "rank");
  if (timeline.has_one_clock)
    of_all += ", " + time_text(static_cast<double>(timeline.end_ns - timeline.begin_ns)) +
              " from the first record to the last";
  Details lines{of_all, ""};
  add_traffic(timeline, lines);
  lines.push_back("");
  add_times(timeline, lines);
  Details waits;
  add_waits(timeline, waits);
  if (!waits.empty()) lines.push_back("");
  lines += std::move(waits);
  add_reductions(run.ranks.front(), lines);
  if (has_unseen(timeline))
    lines.push_back(
        "ddp_backward is a whole backward: its recorder does not see what DistributedDataParallel "
        "sends within it.");
  return lines;
}

}  // namespace lockstep::recorded
