#include "harness/verdict/compare.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

namespace lockstep {
namespace {

TensorValue floats_of(const std::vector<float>& values) {
  TensorValue out{"float32", {static_cast<int64_t>(values.size())}, {}};
  out.bytes.resize(values.size() * sizeof(float));
  std::memcpy(out.bytes.data(), values.data(), out.bytes.size());
  return out;
}

Row row(const std::vector<std::vector<float>>& by_rank) {
  Row out{{2, "after"}, "w", {}};
  for (const auto& values : by_rank) out.by_rank.push_back(floats_of(values));
  return out;
}

std::string pattern(const std::vector<std::vector<float>>& seen,
                    const std::vector<std::vector<float>>& expected,
                    const Explanations& explanations = {}) {
  return diagnose({row(seen), row(expected).by_rank, {}}, explanations).pattern;
}

TEST(Diagnose, EachPatternIsNamedFromTheValuesAlone) {
  const std::vector<std::vector<float>> right{{1, 2}, {1, 2}, {1, 2}};
  const std::vector<std::vector<float>> three(3, {1, 2, 5});
  EXPECT_EQ(pattern({{3, 6, 15}, {3, 6, 15}, {3, 6, 15}}, three), "factor_world_size");
  EXPECT_EQ(pattern({{2, 4, 10}, {2, 4, 10}, {2, 4, 10}}, three), "constant_factor");
  EXPECT_EQ(pattern({{3, 6}, {3, 6}, {3, 6}}, right), "ranks_agree_reference_differs");
  EXPECT_EQ(pattern({{1, 2}, {3, 6}, {3, 6}}, right), "only_rank_zero_right");
  EXPECT_EQ(pattern({{1, 2}, {1, 2}, {0, 0}}, right), "one_rank_zero");
  EXPECT_EQ(pattern({{1, 2}, {1, 2}, {5, 0}}, right), "one_rank_differs");
  EXPECT_EQ(pattern({{0, 0}, {0, 0}, {0, 0}}, right), "all_zero");
  EXPECT_EQ(pattern({{1, 7}, {1, 7}, {1, 7}}, right), "ranks_agree_reference_differs");
  EXPECT_EQ(pattern({{1, 7}, {2, 7}, {3, 7}}, right), "every_rank_differs");
  EXPECT_EQ(pattern({{0, 5}, {3, 0}, {0, 1}}, right), "average_not_taken");
  EXPECT_EQ(pattern({{0, 5}, {3, 0}, {0, 2}}, right), "every_rank_differs");
  EXPECT_EQ(pattern({{1, 7}, {1, 2}, {2, 7}}, right), "some_ranks_differ");
  EXPECT_EQ(pattern({{1, 7}}, {{1, 2}}), "value_differs");
  EXPECT_EQ(pattern({{1}, {1}, {1}}, right), "other_shape");
  EXPECT_EQ(pattern({{3, 6, 1}, {3, 6, 1}, {3, 6, 1}}, {{9, 18, 3}, {9, 18, 3}, {9, 18, 3}}),
            "factor_one_over_world_size");
}

TEST(Diagnose, RelationsBetweenNumbersAreNamed) {
  const std::vector<std::vector<float>> right{{1, 2, 4, 8}, {1, 2, 4, 8}, {1, 2, 4, 8}};
  const auto all = [&](const std::vector<float>& seen) {
    return pattern({seen, seen, seen}, right);
  };
  EXPECT_EQ(all({-1, -2, -4, -8}), "sign_flipped");
  EXPECT_EQ(all({3, 4, 6, 10}), "shifted_by_a_constant");
  EXPECT_EQ(all({8, 1, 2, 4}), "elements_permuted");
  EXPECT_EQ(all({1, 2, 5, 9.5}), "tail_differs");
  EXPECT_EQ(all({1, 2, 5, 8}), "one_element_differs");
  EXPECT_EQ(all({1, 2, 4, std::nextafter(8.0F, 9.0F)}), "last_bits_differ");
  EXPECT_EQ(all({1, NAN, 4, 8}), "not_finite");
  EXPECT_EQ(all({1, INFINITY, 4, 8}), "not_finite");
  EXPECT_EQ(all({1, 5, 4, 9}), "ranks_agree_reference_differs") << "nothing fits";
}

TEST(Diagnose, OneRankOfSeveralIsNamedWithHowItDiffers) {
  const std::vector<std::vector<float>> right{{1, 2}, {1, 2}, {1, 2}};
  EXPECT_EQ(pattern({{1, 2}, {1, NAN}, {1, 2}}, right), "one_rank_not_finite");
  EXPECT_EQ(pattern({{1, 2}, {1, 2}, {0, 0}}, right), "one_rank_zero");
  const std::vector<std::vector<float>> three(3, {1, 2, 5});
  const auto found =
      diagnose({row({{1, 2, 5}, {1, 2, 5}, {3, 6, 15}}), row(three).by_rank, {}}, {});
  EXPECT_EQ(found.text,
            "rank 2 alone differs from the reference: every value is 3 x the reference, the world "
            "size");
}

TEST(Diagnose, AMatrixMayBeTransposed) {
  auto matrix = [](const std::vector<float>& values) {
    auto value = floats_of(values);
    value.shape = {2, 3};
    return value;
  };
  const Row seen{{0, "x"}, "w", {matrix({1, 4, 2, 5, 3, 6})}};
  EXPECT_EQ(diagnose({seen, {matrix({1, 2, 3, 4, 5, 6})}, {}}, {}).pattern, "transposed");
}

TEST(Diagnose, RanksMayHoldWhatBelongsToOthers) {
  const auto found = diagnose({row({{2, 5}, {1, 3}}), row({{1, 3}, {2, 5}}).by_rank, {}}, {});
  EXPECT_EQ(found.pattern, "another_ranks_value");
  EXPECT_EQ(found.text,
            "the value of another rank: rank 0 holds that of rank 1, rank 1 holds that of rank 0");
}

TEST(Diagnose, ShapesMayDifferByRank) {
  EXPECT_EQ(pattern({{2, 4, 6}, {8}}, {{1, 2, 3}, {4}}), "factor_world_size");
  EXPECT_EQ(pattern({{NAN, 2, 3}, {NAN}}, {{1, 2, 3}, {4}}), "not_finite");
  EXPECT_EQ(pattern({{1, 2, 9}, {5}}, {{1, 2, 3}, {4}}), "every_rank_differs");
}

TEST(Diagnose, AValueThatWasCutOffHasAnotherShape) {
  Row seen = row({{1, 2}, {1, 2}});
  seen.by_rank[1].bytes.resize(6);
  EXPECT_EQ(diagnose({seen, row({{1, 2}, {1, 2}}).by_rank, {}}, {}).pattern, "other_shape");
}

TEST(Diagnose, ACounterMayBeAhead) {
  const Row seen{{0, "x"}, "batches", {int64_values({3}), int64_values({3})}};
  EXPECT_EQ(diagnose({seen, {int64_values({2}), int64_values({2})}, {}}, {}).text,
            "every value is the reference + 1");
}

// One number is a multiple of any other, and a shift away from it: that shows nothing, nor does it
// twice; of two numbers a factor may be true by chance.
TEST(Diagnose, OneNumberIsNoEvidence) {
  EXPECT_EQ(pattern({{7, 7}, {7, 7}}, {{3, 3}, {3, 3}}), "ranks_agree_reference_differs");
  EXPECT_EQ(pattern({{7, 0}, {7, 0}}, {{3, 0}, {3, 0}}), "ranks_agree_reference_differs");
  EXPECT_EQ(diagnose({{{0, "x"}, "n", {int64_values({2, 2}), int64_values({2, 2})}},
                      {int64_values({1, 1}), int64_values({1, 1})},
                      {}},
                     {})
                .pattern,
            "shifted_by_a_constant")
      << "of whole numbers one is evidence for a shift, and none for a factor";
  EXPECT_EQ(pattern({{0.7F}, {0.7F}}, {{0.3F}, {0.3F}}), "ranks_agree_reference_differs");
  EXPECT_EQ(pattern({{0.6F}, {0.6F}}, {{0.3F}, {0.3F}}), "ranks_agree_reference_differs");
  EXPECT_EQ(pattern({{-2}, {-2}}, {{2}, {2}}), "ranks_agree_reference_differs");
}

std::string within(const std::vector<float>& seen, const std::vector<float>& expected, float bound,
                   const Explanations& explanations = {}) {
  const Difference is{
      row({seen, seen}), row({expected, expected}).by_rank,
      row({std::vector<float>(seen.size(), bound), std::vector<float>(seen.size(), bound)})
          .by_rank};
  return diagnose(is, explanations).pattern;
}

TEST(Diagnose, RelationsAllowWhatTheBoundAllows) {
  EXPECT_EQ(within({20.1F, 39.9F, -60.1F}, {10, 20, -30}, 0.1F), "factor_world_size");
  EXPECT_EQ(within({5.05F, 9.96F, -15.04F}, {10, 20, -30}, 0.1F), "factor_one_over_world_size");
  EXPECT_EQ(within({-10.05F, -20, 30}, {10, 20, -30}, 0.1F), "sign_flipped");
  EXPECT_EQ(within({30.1F, 60, -90}, {10, 20, -30}, 0.1F), "constant_factor");
  EXPECT_EQ(within({20, 10.05F, -30}, {10, 20, -30}, 0.1F), "elements_permuted");
  EXPECT_EQ(within({20.1F, 39, -60.1F}, {10, 20, -30}, 0.1F), "ranks_agree_reference_differs");
  EXPECT_EQ(within({10.15F, 20, -30}, {10, 20, -30}, 0.1F), "just_outside_the_bound");
  EXPECT_EQ(within({20, 39.9F, -60}, {10, 20, -30}, 0.1F, {sum_not_average("gradients")}),
            "sum_not_average");
}

// Inside wide bounds everything is twice everything else.
TEST(Diagnose, NoiseInsideWideBoundsIsNoRelation) {
  EXPECT_EQ(within({2.9F, 0.2F}, {0.5F, 0.1F}, 1), "ranks_agree_reference_differs");
  EXPECT_EQ(within({-2.9F, 0.2F}, {0.5F, 0.1F}, 1), "ranks_agree_reference_differs");
}

// `moment` has other rows beside the first; all are of two ranks of which rank 1 is wrong.
Diagnosis beside(const std::vector<std::pair<std::vector<float>, std::vector<float>>>& moment) {
  std::vector<Difference> rows;
  for (const auto& [seen, right] : moment)
    rows.push_back({row({right, right, seen}), row({right, right, right}).by_rank, {}});
  return diagnose(rows.front(), {}, rows);
}

TEST(Diagnose, ARelationThatAnotherRowContradictsIsNotNamed) {
  EXPECT_EQ(beside({{{0, 0}, {1, 2}}, {{0, 0}, {3, 4}}}).pattern, "one_rank_zero");
  EXPECT_EQ(beside({{{0, 0}, {1, 2}}, {{0.5F}, {-0.25F}}}).text,
            "rank 2 alone differs from the reference");
  EXPECT_EQ(beside({{{2, 4}, {1, 2}}, {{6}, {3}}}).text,
            "rank 2 alone differs from the reference: every value is 2 x the reference")
      << "three numbers show it, in two rows";
  EXPECT_EQ(beside({{{2, 4}, {1, 2}}, {{9}, {3}}}).text, "rank 2 alone differs from the reference");
  EXPECT_EQ(beside({{{2, 3}, {1, 2}}, {{4}, {3}}}).text,
            "rank 2 alone differs from the reference: every value is the reference + 1");
  EXPECT_EQ(beside({{{2, 3}, {1, 2}}, {{5}, {3}}}).text, "rank 2 alone differs from the reference");
  EXPECT_EQ(beside({{{2, 4, 6}, {1, 2, 3}}, {{3}, {3}}}).text,
            "rank 2 alone differs from the reference: every value is 2 x the reference")
      << "a row that is right says nothing";
}

TEST(Diagnose, ANanIsNamedWhateverOtherRowsShow) {
  EXPECT_EQ(beside({{{NAN, 2}, {1, 2}}, {{9}, {3}}}).pattern, "one_rank_not_finite");
}

TEST(Diagnose, WholeNumbersThatLostTheirLastBitsAreNamed) {
  const int64_t big = (int64_t{1} << 53) + 1;
  const auto all = [&](int64_t seen) {
    return diagnose({{{0, "x"}, "n", {int64_values({seen, 4}), int64_values({seen, 4})}},
                     {int64_values({big, 4}), int64_values({big, 4})},
                     {}},
                    {});
  };
  EXPECT_EQ(all(big - 1).pattern, "through_floating_point");
  EXPECT_EQ(all(big - 1).text, "what is left of the reference after a way through float64");
  EXPECT_NE(all(big + 2).pattern, "through_floating_point");
}

TEST(Diagnose, OneValueForAllWhereEachRankHasItsOwnIsNamed) {
  EXPECT_EQ(pattern({{5, 9}, {5, 9}}, {{1, 2}, {3, 4}}), "one_value_for_all");
}

TEST(Diagnose, AnExplanationThatFitsEveryRankComesFirst) {
  const std::vector<std::vector<float>> right{{1, 2}, {1, 2}};
  const Explanations known{
      recorded_instead({"not_reduced", ""}, {floats_of({5, 5}), floats_of({6, 6})}),
      recorded_instead({"sum", ""}, {floats_of({2, 4}), floats_of({2, 4})})};
  EXPECT_EQ(pattern({{2, 4}, {2, 4}}, right, known), "sum");
  EXPECT_EQ(pattern({{5, 5}, {6, 6}}, right, known), "not_reduced");
  EXPECT_EQ(pattern({{5, 5}, {6, 7}}, right, known), "every_rank_differs");
}

TEST(Diagnose, TheSignOfAZeroHidesNoExplanation) {
  const Explanations known{recorded_instead({"sum", ""}, {floats_of({-0.0F, 4})})};
  EXPECT_EQ(pattern({{0, 4}}, {{1, 2}}, known), "sum");
}

// Rank 0's a met rank 1's b and the reverse; each rank took the result under its own name.
TEST(Diagnose, SumsUnderOtherNamesAreFound) {
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

TEST(Diagnose, SumsAndRepeatedDivisionsAreExplained) {
  const std::vector<std::vector<float>> right{{2, 6}, {2, 6}};
  EXPECT_EQ(explained({{4, 12}, {4, 12}}, right, sum_not_average("gradients")), "sum_not_average");
  EXPECT_EQ(explained({{1, 3}, {1, 3}}, right, divided_twice()), "divided_twice");
  EXPECT_EQ(explained({{4, 13}, {4, 13}}, right, sum_not_average("gradients")),
            "ranks_agree_reference_differs");
  EXPECT_EQ(explained({{7, 6}}, {{2, 6}}, sum_not_average("gradients")), "value_differs")
      << "a sum over one rank is its average";
}

TEST(Diagnose, AStaleRankIsDistinguishedFromAStaleWorld) {
  const std::vector<std::vector<float>> right{{1, 2}, {1, 2}, {1, 2}};
  const auto stale = last_steps_value({floats_of({5, 7})});
  EXPECT_EQ(explained({{5, 7}, {5, 7}, {5, 7}}, right, stale), "last_steps_value");
  EXPECT_EQ(explained({{1, 2}, {5, 7}, {1, 2}}, right, stale), "one_rank_stale");
  EXPECT_EQ(explained({{1, 2}, {5, 8}, {1, 2}}, right, stale), "one_rank_differs");
}

TEST(Diagnose, TheRatioOfTheBatchIsEachRanksOwn) {
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

TEST(Diagnose, MistakesThatAreValuesAreExplained) {
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

TEST(Diagnose, EqualShapesMayChangePlaces) {
  const std::vector<std::vector<float>> right{{1, 2}, {1, 2}};
  const auto others = anothers_value({{"zeros", {floats_of({0, 0})}}, {"b", {floats_of({5, 7})}}});
  EXPECT_EQ(explained({{5, 7}, {5, 7}}, right, others), "parameters_permuted");
  EXPECT_EQ(explained({{0, 0}, {0, 0}}, right, others), "all_zero");
}

TEST(Diagnose, RanksThatDisagreeAreSortedIntoGroups) {
  const auto found = [](const std::vector<std::vector<float>>& seen) {
    return diagnose_disagreement(row(seen));
  };
  EXPECT_EQ(found({{1}, {2}}).pattern, "no_two_ranks_agree");
  EXPECT_EQ(found({{1}, {2}, {3}}).pattern, "no_two_ranks_agree");
  EXPECT_EQ(found({{2}, {1}, {1}}).text, "rank 0 differs from the others, which agree");
  EXPECT_EQ(found({{2}, {1}, {1}}).pattern, "one_rank_stands_alone");
  EXPECT_EQ(found({{2}, {1}, {0}, {1}, {2}}).text,
            "3 different values: held by ranks 0, 4; by ranks 1, 3; by rank 2");
  EXPECT_EQ(found({{1}, {1}, {2}, {2}}).pattern, "ranks_in_groups");
  EXPECT_EQ(found({{1}, {1}, {0}}).pattern, "one_rank_zero");
  EXPECT_EQ(found({{1}, {1}, {NAN}}).pattern, "one_rank_not_finite");
}

}  // namespace
}  // namespace lockstep
