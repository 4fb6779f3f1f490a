// Orders two patterns by how much they explain.
#include "harness/verdict/compare.h"

#include <gtest/gtest.h>

#include <cstring>

namespace lockstep {
namespace {

using Kind = Verdict::Kind;

Row row_of_floats(const std::vector<std::vector<float>>& by_rank) {
  Row out{{2, "after"}, "w", {}};
  for (const auto& values : by_rank) {
    TensorValue value{"float32", {static_cast<int64_t>(values.size())}, {}};
    value.bytes.resize(values.size() * sizeof(float));
    std::memcpy(value.bytes.data(), values.data(), value.bytes.size());
    out.by_rank.push_back(std::move(value));
  }
  return out;
}

TEST(Specificity, WhichRanksDifferExplainsLessThanARelationAndThatLessThanAnExplanation) {
  const std::vector<std::vector<float>> right{{1, 2}, {1, 2}, {1, 2}};
  const auto specificity = [&](const std::vector<std::vector<float>>& seen,
                               const Explanations& explanations = {}) {
    return diagnose({row_of_floats(seen), row_of_floats(right).by_rank, {}}, explanations)
        .specificity;
  };
  EXPECT_EQ(specificity({{1, 7}, {2, 7}, {3, 7}}), Specificity::which_ranks);
  EXPECT_EQ(specificity({{1, 2}, {1, 2}, {5, 0}}), Specificity::which_ranks);
  EXPECT_EQ(specificity({{2, 1}, {2, 1}, {2, 1}}), Specificity::relation);
  EXPECT_EQ(specificity({{1, 2}, {1, 2}, {0, 0}}), Specificity::relation);
  EXPECT_EQ(specificity({{1}, {1}, {1}}), Specificity::relation);
  EXPECT_EQ(specificity({{3, 6}, {3, 6}, {3, 6}}, {sum_not_average("gradients")}),
            Specificity::explanation);
  EXPECT_EQ(diagnose_disagreement(row_of_floats({{1, 7}, {2, 7}, {3, 7}})).specificity,
            Specificity::which_ranks);
  EXPECT_EQ(equal("R", {{.row = row_of_floats({{1, 7}, {2, 7}, {3, 7}}),
                         .expected = row_of_floats(right).by_rank}})
                .at(0)
                .specificity,
            Specificity::which_ranks);
  EXPECT_EQ(alike("R", {row_of_floats({{1, 7}, {2, 7}, {3, 7}})}).at(0).specificity,
            Specificity::which_ranks);
}

TEST(Specificity, ARelationOfOneRankHoldsInEveryRowOfTheMoment) {
  const auto w = row_of_floats({{1, 2}, {1, 2}, {0, 0}});
  auto other = row_of_floats({{1, 2}, {0, 0}, {1, 2}});
  other.name = "b";
  EXPECT_EQ(alike("R", {w}).at(0).pattern, "one_rank_zero");
  EXPECT_EQ(alike("R", {w, other}).at(0).pattern, "one_rank_stands_alone");
}

Verdict with_finding(const Finding& finding, Kind kind = Kind::fail) {
  return {kind, {finding}};
}

TEST(Specificity, ACaseShowsAFailureByTheSamePatternOrOneThatExplainsMore) {
  const auto vague =
      with_finding({"R", "every_rank_differs", "", "", {}, Specificity::which_ranks});
  const auto other = with_finding({"R", "some_ranks_differ", "", "", {}, Specificity::which_ranks});
  const auto relation = with_finding({"R", "factor_world_size", "", "", {}, Specificity::relation});
  const auto explained = with_finding({"R", "sum_not_average", "elsewhere", "otherwise"});
  const auto another = with_finding({"R", "not_reduced", "", ""});
  const std::vector ascending{vague, relation, explained};
  for (size_t i = 0; i < ascending.size(); ++i)
    for (size_t j = 0; j < ascending.size(); ++j)
      EXPECT_EQ(shows_failure(ascending[i], ascending[j]), i >= j) << i << " " << j;
  EXPECT_FALSE(shows_failure(other, vague)) << "as vague, and not the same";
  EXPECT_FALSE(shows_failure(another, explained));
  EXPECT_TRUE(shows_failure(another, vague));
  EXPECT_FALSE(shows_failure(with_finding({"S", "sum_not_average", "", ""}), vague));
  EXPECT_FALSE(shows_failure(with_finding({"R", "stuck", "", ""}, Kind::hang), vague));
  EXPECT_FALSE(shows_failure({}, vague));
}

TEST(Finding, KeepsTheFirstLineOfItsDiagnosisAndTheOthersAsDetails) {
  Finding finding{"R", "", "", "one\ntwo\nthree", {"four"}};
  keep_first_line(finding);
  EXPECT_EQ(finding, (Finding{"R", "", "", "one", {"two", "three", "four"}}));
}

}  // namespace
}  // namespace lockstep
