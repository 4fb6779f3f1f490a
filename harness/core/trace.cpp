#include "harness/core/trace.h"

#include "harness/core/text.h"

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

std::string ranks_text(const std::vector<int>& ranks) {
  std::vector<std::string> names;
  for (const int rank : ranks) names.push_back(std::to_string(rank));
  return (ranks.size() == 1 ? "rank " : "ranks ") + joined(names, ", ");
}

}  // namespace

std::string text_of(const Collective& collective) {
  return collective.op + " of " + with_commas(collective.elements) + " " + collective.dtype +
         (collective.root < 0 ? "" : " from rank " + std::to_string(collective.root));
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
    std::set<int> members;
    for (const auto& [sequence, by_rank] : ladder)
      for (const auto& [rank, collective] : by_rank) members.insert(rank);
    for (int rank = 0; group == kWorld && rank < history.size(); ++rank) members.insert(rank);
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

}  // namespace lockstep
