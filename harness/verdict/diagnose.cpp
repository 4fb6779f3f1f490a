#include "harness/verdict/diagnose.h"

#include "harness/base/text.h"
#include "harness/verdict/element.h"
#include "harness/verdict/relation.h"

#include <algorithm>
#include <cmath>

namespace lockstep {

namespace {

constexpr size_t kGroupsNamed = 4;
constexpr auto kWhichRanks = Specificity::which_ranks, kRelation = Specificity::relation;

// "ranks 1, 3"; a few names and a count where there are many.
std::string listed_ranks(const std::vector<size_t>& ranks) {
  std::vector<std::string> names;
  for (const auto rank : ranks) names.push_back(std::to_string(rank));
  return (ranks.size() == 1 ? "rank " : "ranks ") + listed(names);
}

std::vector<WrongRow> wrong_rows(const std::vector<Difference>& rows) {
  std::vector<WrongRow> out;
  for (const auto& row : rows)
    if (auto ranks = wrong_ranks(row); !ranks.empty()) out.push_back({row, std::move(ranks)});
  return out;
}

// The average of what the ranks hold is what each should hold, so that each has its own.
bool average_is_right(const Difference& is) {
  const size_t world = is.expected.size();
  const auto right = as_doubles(is.expected.front());
  std::vector<double> sum(right.size(), 0.0);
  for (const auto& seen : is.row.by_rank) {
    if (!same_shape(seen, is.expected.front()) || is_whole(seen.dtype)) return false;
    const auto values = as_doubles(seen);
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += values[i];
  }
  for (size_t i = 0; i < sum.size(); ++i)
    if (sum[i] != right[i] * static_cast<double>(world)) return false;
  return true;
}

// The ranks that differ come before how they differ: one rank that holds a multiple is first of all
// one rank.
Diagnosis by_rank(const Difference& is, const std::vector<size_t>& wrong,
                  const std::vector<Difference>& moment) {
  const size_t world = is.expected.size();
  const auto relation = relation_of({is, wrong}, wrong_rows(moment));
  const std::string how = relation ? ": " + relation->text : "";
  const bool alone = wrong.size() == 1 && world > 1;
  const std::string stands_alone = listed_ranks(wrong) + " alone differs from the reference" + how;
  if (alone && relation && !relation->on_one_rank.empty())
    return {relation->on_one_rank, stands_alone, kRelation};
  if (wrong.size() + 1 == world && wrong.front() == 1)
    return {"only_rank_zero_right",
            "only rank 0 holds the reference's value" +
                (relation ? "; elsewhere " + relation->text : ""),
            kWhichRanks};
  if (alone) return {"one_rank_differs", stands_alone, kWhichRanks};
  if (wrong.size() < world)
    return {"some_ranks_differ", listed_ranks(wrong) + " differ from the reference" + how,
            kWhichRanks};
  if (relation) return {relation->pattern, relation->text, kRelation};
  if (world == 1) return {"value_differs", "it differs from the reference", kWhichRanks};
  if (!all_alike(is.row.by_rank) && all_alike(is.expected) && average_is_right(is))
    return {"average_not_taken",
            "the ranks differ, and the average of what they hold is right: it was not taken, or "
            "another one in its place",
            kRelation};
  if (!all_alike(is.row.by_rank))
    return {"every_rank_differs", "no rank holds the reference's value", kWhichRanks};
  if (!all_alike(is.expected))
    return {"one_value_for_all",
            "all ranks hold the same, although what is right differs from rank to rank",
            kWhichRanks};
  return {"ranks_agree_reference_differs", kOnlyTheReferenceShows, kWhichRanks};
}

Diagnosis by_shape(const TensorValue& seen, const TensorValue& right, size_t rank) {
  const std::string which = "rank " + std::to_string(rank);
  if (is_no_gradient(seen))
    return {"no_gradient",
            which + " has no gradient, where one of " + shape_text(right) + " is right"};
  if (is_no_gradient(right))
    return {"unexpected_gradient",
            which + " has a gradient, " + shape_text(seen) + ", where there must be none"};
  return {
      "other_shape",
      "dtype or shape differs: " + shape_text(seen) + " where " + shape_text(right) + " is right",
      kRelation};
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

// Two ranks that differ do not show which of them is odd.
std::optional<size_t> odd_one_out(const std::vector<std::vector<size_t>>& groups, size_t world) {
  if (world < 3 || groups.size() != 2) return {};
  const auto& smaller = groups[groups[0].size() < groups[1].size() ? 0 : 1];
  if (smaller.size() != 1) return {};
  return smaller.front();
}

// Takes the majority's values as right, to name how the odd one out differs.
Difference against_majority(const Row& row, size_t odd) {
  return {row, std::vector(row.by_rank.size(), row.by_rank[odd == 0 ? 1 : 0]), {}};
}

// How the rank `odd` differs from all others, if that has its own name and holds in every row of
// the moment in which the ranks do not agree.
std::optional<Relation> how_it_differs(const Row& row, size_t odd, const std::vector<Row>& moment) {
  std::vector<Difference> rows;
  for (const auto& other : moment) {
    const auto groups = groups_of(other);
    if (groups.size() == 1) continue;
    if (odd_one_out(groups, row.by_rank.size()) != odd) return {};
    rows.push_back(against_majority(other, odd));
  }
  const auto is = against_majority(row, odd);
  if (!comparable(row.by_rank[odd], is.expected[odd])) return {};
  const auto relation = relation_of({is, {odd}}, wrong_rows(rows));
  if (!relation || relation->on_one_rank.empty()) return {};
  return relation;
}

}  // namespace

bool all_alike(const std::vector<TensorValue>& values) {
  return std::all_of(values.begin(), values.end(), [&](const TensorValue& value) {
    return close(value, values.front(), nullptr);
  });
}

bool close(const TensorValue& a, const TensorValue& b, const TensorValue* bound) {
  if (!comparable(a, b)) return false;
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

Diagnosis diagnose(const Difference& is, const Explanations& explanations,
                   const std::vector<Difference>& moment) {
  for (const auto& explanation : explanations)
    if (auto diagnosis = explanation(is)) return *diagnosis;
  for (size_t rank = 0; rank < is.expected.size(); ++rank)
    if (!comparable(is.row.by_rank[rank], is.expected[rank]))
      return by_shape(is.row.by_rank[rank], is.expected[rank], rank);
  return by_rank(is, wrong_ranks(is), moment);
}

Diagnosis diagnose_disagreement(const Row& row, const std::vector<Row>& moment) {
  auto groups = groups_of(row);
  std::stable_sort(groups.begin(), groups.end(),
                   [](const auto& a, const auto& b) { return a.size() > b.size(); });
  const size_t world = row.by_rank.size();
  if (const auto odd = odd_one_out(groups, world)) {
    const auto how = how_it_differs(row, *odd, moment);
    return {how ? how->on_one_rank : "one_rank_stands_alone",
            listed_ranks({*odd}) + " differs from the others, which agree" +
                (how ? ": " + how->text : ""),
            how ? kRelation : kWhichRanks};
  }
  if (groups.size() == world)
    return {
        "no_two_ranks_agree",
        world == 2 ? "the two ranks hold different values" : "every rank holds a value of its own",
        kWhichRanks};
  std::vector<std::string> parts;
  for (const auto& group : groups)
    if (parts.size() < kGroupsNamed) parts.push_back(listed_ranks(group));
  return {"ranks_in_groups",
          std::to_string(groups.size()) + " different values: held by " + joined(parts, "; by ") +
              (groups.size() > parts.size() ? "; and so on" : ""),
          kWhichRanks};
}

}  // namespace lockstep
