// Finds where the ranks of a group diverge: see trace.h.
#include "harness/verdict/ladders.h"
#include "harness/verdict/trace.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace lockstep {

namespace {

constexpr size_t kRanksShown = 6;
constexpr int64_t kRungsBefore = 2, kRungsBehind = 1;

// The collective that most ranks issued can be shown once, at the side.
const Collective& common(const Rung& by_rank) {
  const Collective* most = nullptr;
  int64_t votes = 0;
  for (const auto& [rank, one] : by_rank) {
    const auto alike =
        std::count_if(by_rank.begin(), by_rank.end(),
                      [&, &wanted = one](auto& other) { return match(wanted, other.second); });
    if (alike > votes) {
      votes = alike;
      most = &one;
    }
    if (2 * votes >= static_cast<int64_t>(by_rank.size())) break;  // none has more
  }
  return *most;
}

std::string cell(const Rung& by_rank, const Collective& common, int rank) {
  const auto found = by_rank.find(rank);
  if (found == by_rank.end()) return "missing";
  if (!match(common, found->second)) return text_of(found->second);
  return found->second.done ? "done" : "waits";
}

// Where most ranks issued nothing, a rank that did is the odd one.
bool parts(const Rung& by_rank, const Collective& common, const std::set<int>& members, int rank) {
  const auto found = by_rank.find(rank);
  if (2 * by_rank.size() < members.size()) return found != by_rank.end();
  return found == by_rank.end() || !match(common, found->second);
}

bool any_part(const Rung& by_rank, const std::set<int>& members) {
  const Collective& most = common(by_rank);
  return std::any_of(members.begin(), members.end(),
                     [&](int rank) { return parts(by_rank, most, members, rank); });
}

bool is_done_by_all(const Rung& by_rank) {
  return std::all_of(by_rank.begin(), by_rank.end(),
                     [](const auto& each) { return each.second.done; });
}

// Ranks that differ, and others up to the number shown; ascending. A rank differs that issued
// something else than most, or nothing; where none did, the smaller of the done ranks and the
// waiting ranks.
std::vector<int> shown_ranks(const Rung& by_rank, const std::set<int>& members) {
  const Collective& most = common(by_rank);
  const bool all_issued_it = !any_part(by_rank, members);
  const auto done = std::count_if(by_rank.begin(), by_rank.end(),
                                  [](const auto& each) { return each.second.done; });
  const bool most_are_done = 2 * done > static_cast<int64_t>(by_rank.size());
  std::vector<int> shown, others;
  for (const int rank : members) {
    const bool stands_out = all_issued_it ? by_rank.at(rank).done != most_are_done
                                          : parts(by_rank, most, members, rank);
    (stands_out ? shown : others).push_back(rank);
  }
  const size_t room = others.empty() ? kRanksShown : kRanksShown - 1;
  shown.resize(std::min(shown.size(), room));
  others.resize(std::min(others.size(), kRanksShown - shown.size()));
  shown.insert(shown.end(), others.begin(), others.end());
  std::sort(shown.begin(), shown.end());
  return shown;
}

struct DivergencePoint {
  const std::string& group;
  const Ladder& rungs;
  std::set<int> members;
  int64_t at = 0;
  std::vector<int> shown;

  const Rung& rung() const { return rungs.at(at); }
  std::vector<int> ranks_that(const std::function<bool(const Collective*)>& are) const {
    std::vector<int> out;
    for (const int rank : members) {
      const auto found = rung().find(rank);
      if (are(found == rung().end() ? nullptr : &found->second)) out.push_back(rank);
    }
    return out;
  }
};

bool is_stuck(const RankHistory& rank) {
  return rank.ending.kind == Ending::Kind::stuck;
}

std::optional<int64_t> first_divergence_of(const Ladder& ladder, const std::set<int>& members,
                                           bool is_hang) {
  for (const auto& [sequence, by_rank] : ladder)
    if (any_part(by_rank, members) || (is_hang && !is_done_by_all(by_rank))) return sequence;
  return {};
}

bool waits_anywhere(const History& history, int rank) {
  const auto all = history.collectives(rank);
  return std::any_of(all.begin(), all.end(), [](const auto& each) { return !each.done; });
}

// How indirect the evidence is; 0 for the most certain cause.
int remoteness(const History& history, const DivergencePoint& divergence_point) {
  if (mismatch_at(divergence_point.group, divergence_point.at, divergence_point.rung())) return 0;
  const auto missing = divergence_point.ranks_that([](const auto* issued) { return !issued; });
  const bool all_wait_elsewhere =
      !missing.empty() && std::all_of(missing.begin(), missing.end(),
                                      [&](int rank) { return waits_anywhere(history, rank); });
  return all_wait_elsewhere ? 2 : 1;
}

std::optional<DivergencePoint> find_divergence_point(const std::map<std::string, Ladder>& all,
                                                     const History& history) {
  const bool is_hang = std::any_of(history.ranks().begin(), history.ranks().end(), is_stuck);
  std::vector<DivergencePoint> divergence_points;
  for (const auto& [group, rungs] : all) {
    auto members = members_of(group, rungs, history.size());
    const auto at = first_divergence_of(rungs, members, is_hang);
    if (!at) continue;
    auto shown = shown_ranks(rungs.at(*at), members);
    divergence_points.push_back({group, rungs, std::move(members), *at, std::move(shown)});
  }
  const auto first = std::min_element(divergence_points.begin(), divergence_points.end(),
                                      [&](const auto& a, const auto& b) {
                                        return remoteness(history, a) < remoteness(history, b);
                                      });
  if (first == divergence_points.end()) return {};
  return std::move(*first);
}

}  // namespace

namespace {

// The number of collectives that only these ranks issued, from the rung on.
int64_t count_from(const DivergencePoint& divergence_point, const std::vector<int>& ranks) {
  return std::count_if(divergence_point.rungs.lower_bound(divergence_point.at),
                       divergence_point.rungs.end(), [&](const auto& rung) {
                         return std::any_of(ranks.begin(), ranks.end(),
                                            [&](int rank) { return rung.second.contains(rank); });
                       });
}

// For a rung on which all collectives agree. Where some ranks issued it, the fewer are accused.
std::string text_of(const DivergencePoint& divergence_point) {
  const auto& rung = divergence_point.rung();
  const auto missing = divergence_point.ranks_that([](const auto* issued) { return !issued; });
  const auto waiting =
      divergence_point.ranks_that([](const auto* issued) { return issued && !issued->done; });
  const auto done =
      divergence_point.ranks_that([](const auto* issued) { return issued && issued->done; });
  const auto what =
      place_of(divergence_point.at, divergence_point.group) + ", " + text_of(rung.begin()->second);
  const auto verb = [](const std::vector<int>& ranks, const std::string& one) {
    return ranks_text(ranks) + " " + one + (ranks.size() == 1 ? "s" : "");
  };
  if (!missing.empty()) {
    std::vector<int> here;
    for (const auto& [rank, issued] : rung) here.push_back(rank);
    if (missing.size() <= here.size())
      return ranks_text(missing) + " never issued " + what + ", which " + ranks_text(here) +
             " issued";
    const auto more = count_from(divergence_point, here);
    return ranks_text(here) + " issued " + (more == 1 ? "one" : std::to_string(more)) +
           " more than " + ranks_text(missing) + ": " + (more == 1 ? "" : "first ") + what;
  }
  if (done.empty()) return "every rank of the group issued " + what + ", and none completed it";
  return verb(waiting, "wait") + " in " + what + ", which " + ranks_text(done) + " completed";
}

}  // namespace

std::optional<FirstDivergence> first_divergence_point(const History& history) {
  const auto all = ladders(history);
  const auto divergence_point = find_divergence_point(all, history);
  if (!divergence_point) return {};
  const auto mismatch =
      mismatch_at(divergence_point->group, divergence_point->at, divergence_point->rung());
  return FirstDivergence{
      .text = mismatch ? *mismatch : text_of(*divergence_point),
      .is_mismatch = mismatch.has_value(),
      .group = divergence_point->group,
      .sequence = divergence_point->at,
      .issued = divergence_point->rung(),
      .missing = divergence_point->ranks_that([](const auto* issued) { return !issued; })};
}

Details ladder(const History& history) {
  const auto all = ladders(history);
  const auto divergence_point = find_divergence_point(all, history);
  if (!divergence_point) return {};
  const auto& [group, rungs, members, at, ranks] = *divergence_point;
  using Holds = Table::Holds;
  Table table{.columns = {{group == kWorld ? "collective" : group, Holds::name}}, .rows = {}};
  for (const int rank : ranks)
    table.columns.push_back({"rank " + std::to_string(rank), Holds::measure, rank});
  if (ranks.size() < members.size())
    table.heading_of_remarks = "of " + std::to_string(members.size());
  for (auto rung = rungs.lower_bound(at - kRungsBefore);
       rung != rungs.end() && rung->first <= at + kRungsBehind; ++rung) {
    const auto& most = common(rung->second);
    auto& row = table.rows.emplace_back();
    row.cells.push_back({"#" + std::to_string(rung->first) + " " + text_of(most)});
    for (const int rank : ranks)
      row.cells.push_back({.text = cell(rung->second, most, rank),
                           .is_wrong = parts(rung->second, most, members, rank)});
    if (rung->first == at) row.mark = Table::Mark::first;
  }
  return {std::move(table)};
}

std::vector<std::pair<int, Collective>> issued_where_ranks_part(const History& history) {
  const auto all = ladders(history);
  const auto divergence_point = find_divergence_point(all, history);
  if (!divergence_point) return {};
  std::vector<std::pair<int, Collective>> issued;
  for (const int rank : divergence_point->shown)
    if (const auto* last = last_issued(divergence_point->rungs, rank, divergence_point->at))
      issued.emplace_back(rank, *last);
  return issued;
}

}  // namespace lockstep
