#include "harness/worlds/ambient.h"

#include "harness/cases/tier.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdlib>

namespace lockstep {
namespace {

using Sentences = std::vector<std::string>;

TEST(Ambient, NothingHasChangedAtOnce) {
  EXPECT_EQ(Ambient::capture().differences(Ambient::capture()), Sentences{});
}

TEST(Ambient, WhateverWasChangedIsNamedAndCanBePutBack) {
  setenv("LOCKSTEP_TEST_A", "1", 1);
  const auto before = Ambient::capture();
  torch::rand({1});
  at::GradMode::set_enabled(false);
  at::set_default_dtype(caffe2::TypeMeta::Make<double>());
  setenv("LOCKSTEP_TEST_A", "2", 1);
  setenv("LOCKSTEP_TEST_B", "", 1);
  EXPECT_EQ(
      before.differences(Ambient::capture()),
      (Sentences{"the default generator has moved", "grad mode was on and is off",
                 "the default dtype was float and is double", "LOCKSTEP_TEST_A was '1' and is '2'",
                 "the environment has gained LOCKSTEP_TEST_B"}));
  before.restore();
  EXPECT_EQ(before.differences(Ambient::capture()), Sentences{});
}

TEST(Ambient, AProcessWithAPoolOfThreadsIsNotForkable) {
  at::set_num_threads(2);
  EXPECT_THROW(require_one_intra_op_thread(), TierError);
  at::set_num_threads(1);
  require_one_intra_op_thread();
}

}  // namespace
}  // namespace lockstep
