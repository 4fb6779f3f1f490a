#include "ddp/reducer/parameter_usage.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace lockstep {
namespace {

constexpr bool kSynchronised = true;
constexpr bool kLocal = false;
constexpr bool kAlone = false;
constexpr bool kOthersAreOutstanding = true;

std::vector<bool> unreached(const ParameterUsage& usage) {
  return {usage.is_unreached(0), usage.is_unreached(1), usage.is_unreached(2)};
}

TEST(ParameterUsage, AnOutstandingForwardThatReachesAParameterIsEnough) {
  ParameterUsage usage(3);
  usage.forward_reaches({true, false, false}, kSynchronised, kAlone);
  EXPECT_EQ(unreached(usage), (std::vector<bool>{false, true, true}));
  usage.forward_reaches({false, true, false}, kSynchronised, kOthersAreOutstanding);
  EXPECT_EQ(unreached(usage), (std::vector<bool>{false, false, true}));
}

TEST(ParameterUsage, TheFirstForwardAfterAReducedPassStartsAnew) {
  ParameterUsage usage(3);
  usage.forward_reaches({true, false, false}, kSynchronised, kAlone);
  usage.pass_is_reduced();
  EXPECT_EQ(unreached(usage), (std::vector<bool>{false, true, true}));  // for a graph walked twice
  usage.forward_reaches({false, true, false}, kSynchronised, kAlone);
  EXPECT_EQ(unreached(usage), (std::vector<bool>{true, false, true}));
}

TEST(ParameterUsage, WhatALocalForwardReachesCountsUntilTheNextReducedPass) {
  ParameterUsage usage(3);
  usage.forward_reaches({false, true, false}, kLocal, kAlone);
  usage.forward_reaches({true, false, false}, kSynchronised, kAlone);
  EXPECT_EQ(unreached(usage), (std::vector<bool>{false, false, true}));
  usage.pass_is_reduced();
  usage.forward_reaches({true, false, false}, kSynchronised, kAlone);
  EXPECT_EQ(unreached(usage), (std::vector<bool>{false, true, true}));
}

TEST(ParameterUsage, AGradientCountsAsUsedUntilTheAveragesAreWritten) {
  ParameterUsage usage(2);
  usage.gradient_came(1);
  usage.pass_is_reduced();
  EXPECT_FALSE(usage.was_used(0));
  EXPECT_TRUE(usage.was_used(1));
  usage.averages_are_written();
  EXPECT_FALSE(usage.was_used(1));
  EXPECT_THROW(usage.gradient_came(2), std::out_of_range);
}

}  // namespace
}  // namespace lockstep
