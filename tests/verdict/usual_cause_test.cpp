#include "harness/verdict/usual_cause.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

Finding finding(const std::string& pattern, const std::string& diagnosis = "") {
  return {.rule = "R", .pattern = pattern, .where = "", .diagnosis = diagnosis};
}

TEST(UsualCause, APatternHasItsCauseInPyTorchsTerms) {
  EXPECT_EQ(usual_cause(finding("epoch_ignored")), "no sampler.set_epoch(epoch) before each epoch");
  EXPECT_NE(usual_cause(finding("sum_not_average")).find("all_reduce"), std::string::npos);
  EXPECT_EQ(usual_cause(finding("every_rank_differs")), "") << "it says which ranks, and not why";
}

TEST(UsualCause, AnExceptionOfPyTorchHasItsOwn) {
  const auto threw = finding("threw", "rank 0 threw: Can't detach views in-place. Use detach()");
  EXPECT_TRUE(usual_cause(threw).starts_with("zero_grad(set_to_none=False)"));
  EXPECT_EQ(usual_cause(finding("threw", "rank 0 threw: no words of PyTorch's")), "");
}

TEST(UsualCause, AHangHasOneWhereRanksIssuedUnlikeCollectives) {
  EXPECT_NE(usual_cause(finding("stuck", "rank 1 never issued collective #0")), "");
  EXPECT_EQ(usual_cause(finding("stuck", "rank 1 did not return inside the deadline")), "");
}

TEST(UsualCause, AFindingThatStatesItsCauseGetsNoOther) {
  auto is = finding("stopped_early");
  EXPECT_NE(usual_cause(is), "");
  is.details.push_back("cause: rank 1 has 9 batches, rank 0 has 10");
  EXPECT_EQ(usual_cause(is), "");
}

TEST(UsualCause, ALimitOfTheBackendIsNoMistake) {
  const auto limited = finding("threw", "rank 0 threw: RuntimeError: Invalid scalar type");
  EXPECT_TRUE(backend_limit(limited).starts_with("Gloo"));
  EXPECT_EQ(usual_cause(limited), "");
  EXPECT_EQ(backend_limit(finding("threw", "rank 0 threw: out of memory")), "");
}

}  // namespace
}  // namespace lockstep
