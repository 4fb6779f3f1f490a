#include "harness/core/diagnose.h"

#include "harness/core/relation.h"
#include "harness/core/text.h"

#include <algorithm>
#include <cmath>

namespace lockstep {

namespace {

constexpr size_t kRanksNamed = 8;
constexpr size_t kGroupsNamed = 4;

bool same_shape(const TensorValue& a, const TensorValue& b) {
  return a.dtype == b.dtype && a.shape == b.shape && a.bytes.size() == b.bytes.size();
}

bool is_whole(const std::string& dtype) {
  return dtype.find("float") == std::string::npos;
}

// "ranks 1, 3"; a few names and a count where there are many.
std::string ranks_text(const std::vector<size_t>& ranks) {
  std::vector<std::string> names;
  for (const auto rank : ranks)
    if (names.size() < kRanksNamed) names.push_back(std::to_string(rank));
  const size_t left = ranks.size() - names.size();
  return (ranks.size() == 1 ? "rank " : "ranks ") + joined(names, ", ") +
         (left == 0 ? "" : " and " + std::to_string(left) + " more");
}

// Who differs comes before how: one rank that holds a multiple is first of all one rank.
Diagnosis by_rank(const Difference& is, const std::vector<size_t>& wrong) {
  const size_t world = is.expected.size();
  const auto relation = relation_of(is, wrong);
  const std::string how = relation ? ": " + relation->text : "";
  const bool alone = wrong.size() == 1 && world > 1;
  const std::string stands_alone = ranks_text(wrong) + " alone differs from the reference" + how;
  if (alone && relation && !relation->on_one_rank.empty())
    return {relation->on_one_rank, stands_alone};
  if (wrong.size() + 1 == world && wrong.front() == 1)
    return {"only_rank_zero_right", "only rank 0 holds the reference's value" +
                                        (relation ? "; elsewhere " + relation->text : "")};
  if (alone) return {"one_rank_differs", stands_alone};
  if (wrong.size() < world)
    return {"some_ranks_differ", ranks_text(wrong) + " differ from the reference" + how};
  if (relation) return {relation->pattern, relation->text};
  if (world == 1) return {"value_differs", "it differs from the reference"};
  const bool agree = std::all_of(
      is.row.by_rank.begin(), is.row.by_rank.end(),
      [&](const TensorValue& value) { return close(value, is.row.by_rank.front(), nullptr); });
  return agree ? Diagnosis{"ranks_agree_reference_differs", kOnlyTheReferenceShows}
               : Diagnosis{"every_rank_differs", "no rank holds the reference's value"};
}

// Ranks that hold the same numbers, in the order of their first rank.
std::vector<std::vector<size_t>> groups_of(const Row& row) {
  std::vector<std::vector<size_t>> groups;
  for (size_t rank = 0; rank < row.by_rank.size(); ++rank) {
    const auto group = std::find_if(groups.begin(), groups.end(), [&](const auto& ranks) {
      return close(row.by_rank[ranks.front()], row.by_rank[rank], nullptr);
    });
    if (group == groups.end()) {
      groups.push_back({rank});
    } else {
      group->push_back(rank);
    }
  }
  return groups;
}

}  // namespace

bool close(const TensorValue& a, const TensorValue& b, const TensorValue* bound) {
  if (!same_shape(a, b)) return false;
  if (a.bytes == b.bytes) return true;
  if (is_whole(a.dtype)) return false;
  const auto left = as_doubles(a), right = as_doubles(b);
  const auto allowed = bound ? as_doubles(*bound) : std::vector<double>(left.size(), 0.0);
  if (allowed.size() != left.size()) throw std::invalid_argument("a bound of another shape");
  for (size_t i = 0; i < left.size(); ++i) {
    const bool both_nan = std::isnan(left[i]) && std::isnan(right[i]);
    if (!both_nan && left[i] != right[i] && !(std::abs(left[i] - right[i]) <= allowed[i]))
      return false;
  }
  return true;
}

Diagnosis diagnose(const Difference& is, const Explanations& explanations) {
  for (const auto& explanation : explanations)
    if (auto diagnosis = explanation(is)) return *diagnosis;
  for (size_t rank = 0; rank < is.expected.size(); ++rank)
    if (!same_shape(is.row.by_rank[rank], is.expected[rank]))
      return {"other_shape", "dtype or shape differs: " + shape_text(is.row.by_rank[rank]) +
                                 " where " + shape_text(is.expected[rank]) + " is right"};
  return by_rank(is, wrong_ranks(is));
}

Diagnosis diagnose_disagreement(const Row& row) {
  auto groups = groups_of(row);
  std::stable_sort(groups.begin(), groups.end(),
                   [](const auto& a, const auto& b) { return a.size() > b.size(); });
  const size_t world = row.by_rank.size();
  if (world > 2 && groups.size() == 2 && groups.back().size() == 1) {
    // The majority stands in for what is right, as far as naming how the odd one out differs goes.
    const Difference odd{row, std::vector(world, row.by_rank[groups.front().front()]), {}};
    const auto& rank = groups.back();
    const bool comparable = same_shape(row.by_rank[rank.front()], odd.expected.front());
    const auto relation = comparable ? relation_of(odd, rank) : std::nullopt;
    const bool named = relation && !relation->on_one_rank.empty();
    return {named ? relation->on_one_rank : "one_rank_stands_alone",
            ranks_text(rank) + " differs from the others, which agree" +
                (named ? ": " + relation->text : "")};
  }
  if (groups.size() == world)
    return {"no_two_ranks_agree", world == 2 ? "the two ranks hold different values"
                                             : "every rank holds a value of its own"};
  std::vector<std::string> parts;
  for (const auto& group : groups)
    if (parts.size() < kGroupsNamed) parts.push_back(ranks_text(group));
  return {"ranks_in_groups", std::to_string(groups.size()) + " different values: held by " +
                                 joined(parts, "; by ") +
                                 (groups.size() > parts.size() ? "; and so on" : "")};
}

}  // namespace lockstep
