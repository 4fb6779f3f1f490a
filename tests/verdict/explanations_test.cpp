#include "tests/verdict/rows.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(Explanations, AnExplanationThatFitsEveryRankComesFirst) {
  const std::vector<std::vector<float>> right{{1, 2}, {1, 2}};
  const Explanations known{
      recorded_instead({"not_reduced", ""}, {floats_of({5, 5}), floats_of({6, 6})}),
      recorded_instead({"sum", ""}, {floats_of({2, 4}), floats_of({2, 4})})};
  EXPECT_EQ(pattern({{2, 4}, {2, 4}}, right, known), "sum");
  EXPECT_EQ(pattern({{5, 5}, {6, 6}}, right, known), "not_reduced");
  EXPECT_EQ(pattern({{5, 5}, {6, 7}}, right, known), "every_rank_differs");
}

TEST(Explanations, TheSignOfAZeroHidesNoExplanation) {
  const Explanations known{recorded_instead({"sum", ""}, {floats_of({-0.0F, 4})})};
  EXPECT_EQ(pattern({{0, 4}}, {{1, 2}}, known), "sum");
}

// Rank 0's a met rank 1's b and the reverse; each rank took the result under its own name.
TEST(Explanations, SumsUnderOtherNamesAreFound) {
  const std::vector<Contribution> put_in{{"a", {floats_of({1, 10}), floats_of({2, 20})}},
                                         {"b", {floats_of({4, 40}), floats_of({8, 80})}}};
  const Explanations known{summed_under_other_names("a", put_in)};
  EXPECT_EQ(pattern({{9, 90}, {6, 60}}, {{3, 30}, {3, 30}}, known), "parameters_mixed");
  const auto diagnosis =
      diagnose({row({{9, 90}, {6, 60}}), row({{3, 30}, {3, 30}}).by_rank, {}}, known);
  EXPECT_NE(diagnosis.text.find("rank 0 holds a of rank 0 + b of rank 1"), std::string::npos);
  EXPECT_EQ(pattern({{9, 91}, {6, 60}}, {{3, 30}, {3, 30}}, known), "every_rank_differs");
}

std::string explained(const std::vector<std::vector<float>>& seen,
                      const std::vector<std::vector<float>>& expected, const Explanation& one) {
  return pattern(seen, expected, {one});
}

TEST(Explanations, SumsAndRepeatedDivisionsAreExplained) {
  const std::vector<std::vector<float>> right{{2, 6}, {2, 6}};
  EXPECT_EQ(explained({{4, 12}, {4, 12}}, right, sum_not_average("gradients")), "sum_not_average");
  EXPECT_EQ(explained({{1, 3}, {1, 3}}, right, divided_twice()), "divided_twice");
  EXPECT_EQ(explained({{4, 13}, {4, 13}}, right, sum_not_average("gradients")),
            "ranks_agree_reference_differs");
  EXPECT_EQ(explained({{7, 6}}, {{2, 6}}, sum_not_average("gradients")), "value_differs")
      << "a sum over one rank is its average";
}

TEST(Explanations, AStaleRankIsDistinguishedFromAStaleWorld) {
  const std::vector<std::vector<float>> right{{1, 2}, {1, 2}, {1, 2}};
  const auto stale = last_steps_value({floats_of({5, 7})});
  EXPECT_EQ(explained({{5, 7}, {5, 7}, {5, 7}}, right, stale), "last_steps_value");
  EXPECT_EQ(explained({{1, 2}, {5, 7}, {1, 2}}, right, stale), "one_rank_stale");
  EXPECT_EQ(explained({{1, 2}, {5, 8}, {1, 2}}, right, stale), "one_rank_differs");
}

TEST(Explanations, TheRatioOfTheBatchIsEachRanksOwn) {
  const std::vector<std::vector<float>> right{{2, 4}, {2, 4}};
  const auto ratios = off_by_batch_ratio({1.5, 0.5});
  EXPECT_EQ(explained({{3, 6}, {1, 2}}, right, ratios), "off_by_batch_ratio");
  EXPECT_EQ(explained({{1, 2}, {3, 6}}, right, ratios), "average_not_taken");
  EXPECT_EQ(explained({{1, 2}, {3, 7}}, right, ratios), "every_rank_differs");
  EXPECT_EQ(explained({{3, 6}, {3, 6}}, right, off_by_batch_ratio({1.5})), "off_by_batch_ratio");
  EXPECT_EQ(explained({{2, 5}, {2, 5}}, right, off_by_batch_ratio({1, 1, 1})),
            "ranks_agree_reference_differs")
      << "ratios of another world explain nothing";
}

TEST(Explanations, MistakesThatAreValuesAreExplained) {
  const std::vector<std::vector<float>> right{{1, 2}, {1, 2}}, seen{{5, 7}, {6, 9}};
  const std::vector<TensorValue> values{floats_of({5, 7}), floats_of({6, 9})};
  EXPECT_EQ(explained(seen, right, average_of_averages(values)), "average_of_averages");
  EXPECT_EQ(explained(seen, right, not_reduced(values)), "not_reduced");
  EXPECT_EQ(explained({{5, 7}, {5, 7}}, right, not_reduced(values)),
            "ranks_agree_reference_differs");
  EXPECT_EQ(explained({{1, 7}, {1, 9}}, right, not_reduced(values)), "not_reduced");  // in part
  EXPECT_NE(explained({{1, 7}, {1, 8}}, right, not_reduced(values)), "not_reduced");
  EXPECT_NE(explained({{1, 2}, {1, 9}}, right, not_reduced(values)), "not_reduced");  // by chance
}

TEST(Explanations, AStateThatNobodySentIsARanksOwnOrAnothers) {
  const std::vector<std::vector<float>> right{{1, 2}, {1, 2}, {1, 2}};
  const auto states =
      initial_states({floats_of({1, 2}), floats_of({5, 7}), floats_of({6, 9})}, "a reason");
  const auto own = diagnose({row({{1, 2}, {5, 7}, {6, 9}}), row(right).by_rank, {}}, states);
  EXPECT_EQ(own.pattern, "own_initial_state");
  EXPECT_EQ(own.cause, "a reason");
  EXPECT_EQ(pattern({{6, 9}, {6, 9}, {6, 9}}, right, states), "took_another_ranks_state");
  EXPECT_EQ(pattern({{1, 2}, {8, 8}, {6, 9}}, right, states), "only_rank_zero_right");
}

TEST(Explanations, EqualShapesMayChangePlaces) {
  const std::vector<std::vector<float>> right{{1, 2}, {1, 2}};
  const auto others = anothers_value({{"zeros", {floats_of({0, 0})}}, {"b", {floats_of({5, 7})}}});
  EXPECT_EQ(explained({{5, 7}, {5, 7}}, right, others), "parameters_permuted");
  EXPECT_EQ(explained({{0, 0}, {0, 0}}, right, others), "all_zero");
}

}  // namespace
}  // namespace lockstep
