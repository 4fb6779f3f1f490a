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
  EXPECT_TRUE(usual_cause(threw).starts_with("LibTorch's zero_grad"));
  EXPECT_TRUE(usual_cause(finding("threw",
                                  "Expected to have finished reduction in the prior "
                                  "iteration ... not compatible with static_graph"))
                  .starts_with("static_graph=True"));
  EXPECT_EQ(usual_cause(finding("threw", "rank 0 threw: no words of PyTorch's")), "");
}

TEST(UsualCause, RanksWhoseCollectivesPartHaveOne) {
  EXPECT_TRUE(usual_cause_of({.text = "", .is_mismatch = true}).starts_with("models that differ"));
  EXPECT_TRUE(
      usual_cause_of({.text = "", .is_missing = true}).starts_with("a collective that some"));
  EXPECT_TRUE(usual_cause_of({.text = "", .is_mismatch = true, .is_other_root = true})
                  .starts_with("src or dst"));
  EXPECT_EQ(usual_cause_of({.text = "rank 1 waits"}), "");
}

TEST(UsualCause, WhatTheMakerOfAFindingKnowsComesFirst) {
  auto is = finding("sum_not_average");
  is.cause = "a known one";
  EXPECT_EQ(usual_cause(is), "a known one");
  is.limit = "a limit";
  EXPECT_EQ(usual_cause(is), "") << "a limit of the backend is no mistake";
}

TEST(UsualCause, AnOptionThatBringsItAboutIsTheCause) {
  auto is = finding("own_initial_state");
  is.rule = "Every replica must start from rank 0's buffers";
  EXPECT_TRUE(
      usual_cause(is, {{"broadcast_buffers", false}}).starts_with("broadcast_buffers=False"));
  EXPECT_EQ(usual_cause(is, {{"broadcast_buffers", true}}), usual_cause(is));
  EXPECT_EQ(usual_cause(is, Json::object()), usual_cause(is));
  is.rule = "Every replica must start from rank 0's parameters";
  EXPECT_EQ(usual_cause(is, {{"broadcast_buffers", false}}), usual_cause(is));
  is = finding("not_reduced");
  is.rule = "A model that was converted and converted back must be averaged, or refused";
  EXPECT_TRUE(usual_cause(is, Json::object()).starts_with("a conversion after wrapping"));
  is = finding("mismatched_collectives");
  is.cause = "a known one";
  EXPECT_TRUE(usual_cause(is, {{"skip_all_reduce_unused_params", true}}).starts_with("skip_all"));
}

TEST(UsualCause, AFindingThatStatesItsCauseGetsNoOther) {
  auto is = finding("stopped_early");
  EXPECT_NE(usual_cause(is), "");
  is.details.push_back("cause: rank 1 has 9 batches, rank 0 has 10");
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
