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
  EXPECT_TRUE(usual_cause(threw).starts_with("detach_() on gradients that are views of buckets"));
  EXPECT_TRUE(usual_cause(finding("threw",
                                  "Expected to have finished reduction in the prior "
                                  "iteration ... not compatible with static_graph"))
                  .starts_with("static_graph=True"));
  EXPECT_EQ(usual_cause(finding("threw", "rank 0 threw: no words of PyTorch's")), "");
}

TEST(UsualCause, WhatTheMakerOfAFindingKnowsComesFirst) {
  auto is = finding("sum_not_average");
  is.cause = "a known one";
  EXPECT_EQ(usual_cause(is), "a known one");
  is.limit = "a limit";
  EXPECT_EQ(usual_cause(is), "") << "a limit of the backend is no mistake";
}

TEST(UsualCause, AFindingThatStatesItsCauseGetsNoOther) {
  auto is = finding("stopped_early");
  EXPECT_NE(usual_cause(is), "");
  is.details.push_back(Cause{"rank 1 has 9 batches, rank 0 has 10"});
  EXPECT_EQ(usual_cause(is), "");
}

TEST(UsualCause, ALimitOfTheBackendIsOfTheCollectivesDtype) {
  const auto limit = [](const std::string& op, const std::string& dtype) {
    return backend_limit({.op = op, .group = "world", .dtype = dtype});
  };
  EXPECT_TRUE(limit("broadcast", "int16").starts_with("Gloo's broadcast carries no int16"));
  EXPECT_EQ(limit("broadcast", "float32"), "");
  EXPECT_EQ(limit("broadcast", "complex64"), "");
  EXPECT_NE(limit("allgather", "complex64"), "");
  EXPECT_EQ(limit("broadcast", "mixed"), "") << "nobody knows";
}

}  // namespace
}  // namespace lockstep
