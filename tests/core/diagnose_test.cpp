#include "harness/core/compare.h"

#include <gtest/gtest.h>

#include <cstring>

namespace lockstep {
namespace {

TensorValue floats(const std::vector<float>& values) {
  TensorValue out{"float32", {static_cast<int64_t>(values.size())}, {}};
  out.bytes.resize(values.size() * sizeof(float));
  std::memcpy(out.bytes.data(), values.data(), out.bytes.size());
  return out;
}

Row row(const std::vector<std::vector<float>>& by_rank) {
  Row out{{2, "after"}, "w", {}};
  for (const auto& values : by_rank) out.by_rank.push_back(floats(values));
  return out;
}

std::string pattern(const std::vector<std::vector<float>>& seen,
                    const std::vector<std::vector<float>>& expected,
                    const Explanations& explanations = {}) {
  return diagnose({row(seen), row(expected).by_rank, {}}, explanations).pattern;
}

TEST(Diagnose, each_pattern_is_named_from_the_values_alone) {
  const std::vector<std::vector<float>> right{{1, 2}, {1, 2}, {1, 2}};
  EXPECT_EQ(pattern({{3, 6}, {3, 6}, {3, 6}}, right), "factor_world_size");
  EXPECT_EQ(pattern({{2, 4}, {2, 4}, {2, 4}}, right), "constant_factor");
  EXPECT_EQ(pattern({{1, 2}, {3, 6}, {3, 6}}, right), "only_rank_zero_right");
  EXPECT_EQ(pattern({{1, 2}, {1, 2}, {0, 0}}, right), "one_rank_zero");
  EXPECT_EQ(pattern({{1, 2}, {1, 2}, {5, 0}}, right), "one_rank_differs");
  EXPECT_EQ(pattern({{0, 0}, {0, 0}, {0, 0}}, right), "all_zero");
  EXPECT_EQ(pattern({{1, 7}, {1, 7}, {1, 7}}, right), "ranks_agree_reference_differs");
  EXPECT_EQ(pattern({{1, 7}, {2, 7}, {3, 7}}, right), "every_rank_differs");
  EXPECT_EQ(pattern({{1}, {1}, {1}}, right), "other_shape");
  EXPECT_EQ(pattern({{3, 6}, {3, 6}, {3, 6}}, {{9, 18}, {9, 18}, {9, 18}}),
            "factor_one_over_world_size");
}

TEST(Diagnose, an_explanation_that_fits_every_rank_comes_first) {
  const std::vector<std::vector<float>> right{{1, 2}, {1, 2}};
  const Explanations known{recorded_instead({"not_reduced", ""}, {floats({5, 5}), floats({6, 6})}),
                           recorded_instead({"sum", ""}, {floats({2, 4}), floats({2, 4})})};
  EXPECT_EQ(pattern({{2, 4}, {2, 4}}, right, known), "sum");
  EXPECT_EQ(pattern({{5, 5}, {6, 6}}, right, known), "not_reduced");
  EXPECT_EQ(pattern({{5, 5}, {6, 7}}, right, known), "every_rank_differs");
}

TEST(Diagnose, the_sign_of_a_zero_hides_no_explanation) {
  const Explanations known{recorded_instead({"sum", ""}, {floats({-0.0F, 4})})};
  EXPECT_EQ(pattern({{0, 4}}, {{1, 2}}, known), "sum");
}

// Rank 0's a met rank 1's b and the reverse; each rank took the result under its own name.
TEST(Diagnose, sums_under_other_names_are_found) {
  const std::vector<Contribution> put_in{{"a", {floats({1, 10}), floats({2, 20})}},
                                         {"b", {floats({4, 40}), floats({8, 80})}}};
  const Explanations known{summed_under_other_names("a", put_in)};
  EXPECT_EQ(pattern({{9, 90}, {6, 60}}, {{3, 30}, {3, 30}}, known), "parameters_mixed");
  const auto diagnosis =
      diagnose({row({{9, 90}, {6, 60}}), row({{3, 30}, {3, 30}}).by_rank, {}}, known);
  EXPECT_NE(diagnosis.text.find("rank 0 holds a of rank 0 + b of rank 1"), std::string::npos);
  EXPECT_EQ(pattern({{9, 91}, {6, 60}}, {{3, 30}, {3, 30}}, known), "every_rank_differs");
}

}  // namespace
}  // namespace lockstep
