#include "harness/core/trace.h"

#include "harness/core/columns.h"
#include "harness/core/text.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

namespace lockstep {

namespace {

constexpr std::string_view kWorld = "world";  // the group of all ranks

using Ladder = std::map<int64_t, std::map<int, Collective>>;  // by sequence number, then by rank

std::map<std::string, Ladder> ladders(const History& history) {
  std::map<std::string, Ladder> out;
  for (int rank = 0; rank < history.size(); ++rank) {
    std::map<std::string, int64_t> numbers;
    for (const auto& collective : history.collectives(rank))
      if (!is_point_to_point(collective.op))
        out[collective.group][numbers[collective.group]++][rank] = collective;
  }
  return out;
}

bool sends_equal_parts(const std::string& op) {
  static const std::set<std::string> kOps{"allreduce",           "broadcast",       "reduce",
                                          "allgather",           "_allgather_base", "barrier",
                                          "_reduce_scatter_base"};
  return kOps.count(op) > 0;
}

bool match(const Collective& a, const Collective& b) {
  if (a.op != b.op) return false;
  if (!sends_equal_parts(a.op)) return true;
  return a.dtype == b.dtype && a.elements == b.elements && a.root == b.root;
}

std::set<int> members_of(const std::string& group, const Ladder& ladder, int world) {
  std::set<int> members;
  for (int rank = 0; group == kWorld && rank < world; ++rank) members.insert(rank);
  for (const auto& [sequence, by_rank] : ladder)
    for (const auto& [rank, collective] : by_rank) members.insert(rank);
  return members;
}

// What `rank` issued last of the rungs up to `most`; null where it is none of them.
const Collective* last_issued(const Ladder& ladder, int rank,
                              int64_t most = std::numeric_limits<int64_t>::max()) {
  for (auto rung = ladder.upper_bound(most); rung != ladder.begin();)
    if (const auto own = (--rung)->second.find(rank); own != rung->second.end())
      return &own->second;
  return nullptr;
}

}  // namespace

std::string ranks_text(const std::vector<int>& ranks) {
  std::vector<std::string> names;
  for (const int rank : ranks) names.push_back(std::to_string(rank));
  return (ranks.size() == 1 ? "rank " : "ranks ") + joined(names, ", ");
}

std::string text_of(const Collective& collective) {
  return collective.op + " of " + with_commas(collective.elements) + " " + collective.dtype +
         (collective.root < 0 ? "" : " from rank " + std::to_string(collective.root)) +
         (collective.bucket.empty() ? "" : " (" + collective.bucket + ")");
}

std::string place_of(int64_t sequence, const std::string& group) {
  return "collective #" + std::to_string(sequence) +
         (group == kWorld ? "" : " of the group " + group);
}

std::optional<std::string> difference(int rank, const Collective& issued, int other_rank,
                                      const Collective& other) {
  if (match(issued, other)) return {};
  return "rank " + std::to_string(rank) + " issued " + text_of(issued) + ", rank " +
         std::to_string(other_rank) + " " + text_of(other);
}

bool is_point_to_point(const std::string& op) {
  return op == "send" || op == "recv" || op == "recvAnysource";
}

std::optional<std::string> first_mismatch(const History& history) {
  for (const auto& [group, ladder] : ladders(history))
    for (const auto& [sequence, by_rank] : ladder) {
      const auto& [first_rank, first] = *by_rank.begin();
      for (const auto& [rank, collective] : by_rank)
        if (const auto differs = difference(first_rank, first, rank, collective))
          return place_of(sequence, group) + " differs: " + *differs;
    }
  return {};
}

std::optional<std::string> first_missing(const History& history) {
  for (const auto& [group, ladder] : ladders(history)) {
    const auto members = members_of(group, ladder, history.size());
    for (const auto& [sequence, by_rank] : ladder) {
      if (by_rank.size() == members.size()) continue;
      std::vector<int> here, missing;
      for (const int rank : members) (by_rank.count(rank) > 0 ? here : missing).push_back(rank);
      return ranks_text(missing) + " never issued " + place_of(sequence, group) + ", " +
             text_of(by_rank.begin()->second) + ", which " + ranks_text(here) + " issued";
    }
  }
  return {};
}

namespace {

constexpr size_t kRanksShown = 6;
constexpr int64_t kRungsBefore = 2, kRungsBehind = 1;

// As what most ranks issued it can be shown once, at the side.
const Collective& common(const std::map<int, Collective>& by_rank) {
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
    if (2 * votes >= static_cast<int64_t>(by_rank.size())) break;  // nobody has more
  }
  return *most;
}

std::string cell(const std::map<int, Collective>& by_rank, const Collective& common, int rank) {
  const auto found = by_rank.find(rank);
  if (found == by_rank.end()) return "missing";
  if (!match(common, found->second)) return text_of(found->second);
  return found->second.done ? "done" : "waits";
}

bool parts(const std::map<int, Collective>& by_rank, const Collective& common, int rank) {
  const auto found = by_rank.find(rank);
  return found == by_rank.end() || !match(common, found->second);
}

std::optional<int64_t> first_parting(const Ladder& ladder, const std::set<int>& members) {
  for (const auto& [sequence, by_rank] : ladder) {
    const Collective& most = common(by_rank);
    for (const int rank : members)
      if (parts(by_rank, most, rank)) return sequence;
  }
  return {};
}

// Those that part, and others up to the number shown; ascending.
std::vector<int> shown_ranks(const std::map<int, Collective>& by_rank,
                             const std::set<int>& members) {
  std::vector<int> parting, others;
  const Collective& most = common(by_rank);
  for (const int rank : members) (parts(by_rank, most, rank) ? parting : others).push_back(rank);
  const size_t room = others.empty() ? kRanksShown : kRanksShown - 1;
  parting.resize(std::min(parting.size(), room));
  others.resize(std::min(others.size(), kRanksShown - parting.size()));
  parting.insert(parting.end(), others.begin(), others.end());
  std::sort(parting.begin(), parting.end());
  return parting;
}

struct Parting {
  const std::string& group;
  const Ladder& rungs;
  std::set<int> members;
  int64_t at = 0;
  std::vector<int> shown;
};

std::optional<Parting> first_parting(const std::map<std::string, Ladder>& all, int world) {
  for (const auto& [group, rungs] : all) {
    auto members = members_of(group, rungs, world);
    const auto at = first_parting(rungs, members);
    if (!at) continue;
    auto shown = shown_ranks(rungs.at(*at), members);
    return Parting{group, rungs, std::move(members), *at, std::move(shown)};
  }
  return {};
}

}  // namespace

std::vector<std::string> ladder(const History& history) {
  const auto all = ladders(history);
  const auto parting = first_parting(all, history.size());
  if (!parting) return {};
  const auto& [group, rungs, members, at, ranks] = *parting;
  std::vector<std::vector<std::string>> lines{{group == kWorld ? "collective" : group}};
  for (const int rank : ranks) lines.front().push_back("rank " + std::to_string(rank));
  lines.front().push_back(ranks.size() == members.size() ? ""
                                                         : "of " + std::to_string(members.size()));
  for (auto rung = rungs.lower_bound(at - kRungsBefore);
       rung != rungs.end() && rung->first <= at + kRungsBehind; ++rung) {
    std::vector<std::string> line{"#" + std::to_string(rung->first) + " " +
                                  text_of(common(rung->second))};
    for (const int rank : ranks) line.push_back(cell(rung->second, common(rung->second), rank));
    line.push_back(rung->first == at ? "\u25c4" : "");
    lines.push_back(std::move(line));
  }
  return in_columns(lines);
}

std::vector<std::pair<int, Collective>> issued_where_ranks_part(const History& history) {
  const auto all = ladders(history);
  const auto parting = first_parting(all, history.size());
  if (!parting) return {};
  std::vector<std::pair<int, Collective>> issued;
  for (const int rank : parting->shown)
    if (const auto* last = last_issued(parting->rungs, rank, parting->at))
      issued.emplace_back(rank, *last);
  return issued;
}

std::vector<std::string> wavefront(const History& history) {
  const auto all = ladders(history);
  std::vector<std::string> lines;
  if (all.size() < 2) return lines;
  for (const auto& [group, rungs] : all) {
    std::map<std::string, std::vector<int>> where;  // by what their last collective is up to
    for (const int rank : members_of(group, rungs, history.size())) {
      const auto* last = last_issued(rungs, rank);
      const auto number = last ? "#" + std::to_string(last->sequence) : "";
      where[!last        ? "issued nothing"
            : last->done ? "done with " + number
                         : "in " + number]
          .push_back(rank);
    }
    std::vector<std::string> parts;
    for (const auto& [what, ranks] : where) parts.push_back(ranks_text(ranks) + " " + what);
    lines.push_back(group + ": " + joined(parts, "; "));
  }
  return lines;
}

}  // namespace lockstep
