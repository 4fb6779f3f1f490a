#include "tests/verdict/rows.h"

#include <gtest/gtest.h>

#include <cmath>

namespace lockstep {
namespace {

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
