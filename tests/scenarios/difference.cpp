#include "tests/scenarios/difference.h"

#include <iomanip>
#include <sstream>

namespace lockstep::scenarios {

namespace {

using Observed = std::vector<std::pair<Moment, Observation>>;

Observed observed(const RankHistory& rank) {
  Observed out;
  for (const auto& event : rank.events)
    if (const auto* what = std::get_if<Observation>(&event.what)) out.emplace_back(event.at, *what);
  return out;
}

std::string text_of(const std::pair<Moment, Observation>& observed) {
  const auto& [at, what] = observed;
  std::ostringstream out;
  out << "step " << at.step << ", " << at.phase << ", " << what.name << ", "
      << shape_text(what.value) << std::setprecision(17);
  for (const double element : as_doubles(what.value)) out << " " << element;
  return out.str();
}

std::string text_of(const std::vector<BucketLayout>& layouts) {
  std::string out;
  for (const auto& layout : layouts) {
    out += "\n ";
    for (const auto& bucket : layout.buckets) {
      out += " [";
      for (const auto& name : bucket.parameters) out += name + " ";
      out += std::to_string(bucket.elements) + "]";
    }
  }
  return out;
}

std::string difference_of_values(const Observed& left, const Observed& right) {
  if (left.size() != right.size() || left.empty())
    return std::to_string(left.size()) + " and " + std::to_string(right.size()) + " observations";
  for (size_t i = 0; i < left.size(); ++i)
    if (left[i] != right[i]) return text_of(left[i]) + "\n  and " + text_of(right[i]);
  return "";
}

// In order, and not by moments: PyTorch lays buckets out anew one forward earlier where that one is
// inside no_sync, which changes nothing that travels.
std::string difference_of_layouts(std::vector<BucketLayout> left, std::vector<BucketLayout> right,
                                  const Extra& extra) {
  if (left.empty() || right.empty()) return "";
  const auto leave_out = [](std::vector<BucketLayout>& all, int64_t elements) {
    for (auto& layout : all)
      for (auto& bucket : layout.buckets) bucket.elements -= elements;
  };
  leave_out(left, extra.left_elements);
  leave_out(right, extra.right_elements);
  return left == right ? "" : "buckets" + text_of(left) + "\n  and" + text_of(right);
}

std::string difference_of_ranks(const RankHistory& left, const RankHistory& right,
                                const Extra& extra) {
  for (const auto* rank : {&left, &right})
    if (rank->ending.kind != Ending::Kind::returned)
      return std::string(name_of(rank->ending.kind)) + " " + rank->ending.why;
  const auto of_values = difference_of_values(observed(left), observed(right));
  return of_values.empty() ? difference_of_layouts(layouts(left), layouts(right), extra)
                           : of_values;
}

}  // namespace

std::vector<BucketLayout> layouts(const RankHistory& rank) {
  std::vector<BucketLayout> out;
  for (const auto& event : rank.events)
    if (const auto* layout = std::get_if<BucketLayout>(&event.what)) out.push_back(*layout);
  return out;
}

std::string difference(const History& left, const History& right, const Extra& extra) {
  if (left.size() != right.size()) return "worlds of other sizes";
  for (int rank = 0; rank < left.size(); ++rank) {
    const auto place = static_cast<size_t>(rank);
    const auto found = difference_of_ranks(left.ranks()[place], right.ranks()[place], extra);
    if (!found.empty()) return "rank " + std::to_string(rank) + ": " + found;
  }
  return "";
}

}  // namespace lockstep::scenarios
