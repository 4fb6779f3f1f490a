#include "harness/verdict/trace.h"

#include "harness/base/text.h"
#include "harness/verdict/ladders.h"

#include <map>
#include <set>

namespace lockstep {

namespace {

bool sends_equal_parts(const std::string& op) {
  static const std::set<std::string> kOps{"allreduce",           "broadcast",       "reduce",
                                          "allgather",           "_allgather_base", "barrier",
                                          "_reduce_scatter_base"};
  return kOps.count(op) > 0;
}

}  // namespace

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

const Collective* last_issued(const Ladder& ladder, int rank, int64_t most) {
  for (auto rung = ladder.upper_bound(most); rung != ladder.begin();)
    if (const auto own = (--rung)->second.find(rank); own != rung->second.end())
      return &own->second;
  return nullptr;
}

std::string ranks_text(const std::vector<int>& ranks) {
  std::vector<std::string> names;
  for (const int rank : ranks) names.push_back(std::to_string(rank));
  return (ranks.size() == 1 ? "rank " : "ranks ") + joined(names, ", ");
}

std::string ranges_text(const std::vector<int>& ascending) {
  std::string text;
  for (size_t first = 0, last = 0; first < ascending.size(); first = last + 1) {
    last = first;
    while (last + 1 < ascending.size() && ascending[last + 1] == ascending[last] + 1) ++last;
    if (last == first + 1) last = first;
    text += (text.empty() ? "" : ", ") + std::to_string(ascending[first]);
    if (last > first) text += "-" + std::to_string(ascending[last]);
  }
  return text.empty() ? "none" : text;
}

std::string text_of(const Collective& collective) {
  return collective.op +
         (collective.dtype.empty()
              ? ""
              : " of " + with_commas(collective.elements) + " " + collective.dtype) +
         (collective.root < 0 ? "" : " from rank " + std::to_string(collective.root)) +
         (collective.bucket ? " (" + text_of(*collective.bucket) + ")" : "");
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

std::optional<std::string> mismatch_at(const std::string& group, int64_t sequence,
                                       const Rung& by_rank) {
  const auto& [first_rank, first] = *by_rank.begin();
  for (const auto& [rank, collective] : by_rank)
    if (const auto differs = difference(first_rank, first, rank, collective))
      return place_of(sequence, group) + " differs: " + *differs;
  return {};
}

std::optional<std::string> first_mismatch(const History& history) {
  for (const auto& [group, ladder] : ladders(history))
    for (const auto& [sequence, by_rank] : ladder)
      if (auto mismatch = mismatch_at(group, sequence, by_rank)) return mismatch;
  return {};
}

Details wavefront(const History& history) {
  const auto all = ladders(history);
  Details lines;
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
