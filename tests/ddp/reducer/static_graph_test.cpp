#include "ddp/reducer/static_graph.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace lockstep {
namespace {

using Arrival = StaticGraph::Arrival;

TEST(StaticGraph, LearnsInTheFirstPassAndCountsDownInLaterOnes) {
  StaticGraph graph(3);
  graph.begin_pass();
  for (const std::size_t index : {0U, 1U, 0U}) EXPECT_EQ(graph.arrive(index), Arrival::incomplete);
  graph.freeze();
  EXPECT_FALSE(graph.is_unused(0));
  EXPECT_TRUE(graph.is_unused(2));
  for (int pass = 0; pass < 2; ++pass) {
    graph.begin_pass();
    EXPECT_EQ(graph.arrive(0), Arrival::incomplete);
    EXPECT_EQ(graph.arrive(1), Arrival::complete);
    EXPECT_EQ(graph.arrive(1), Arrival::unexpected);
    EXPECT_EQ(graph.arrive(0), Arrival::complete);
    EXPECT_EQ(graph.arrive(2), Arrival::unexpected);
  }
}

TEST(StaticGraph, ForgetsAFirstPassThatDidNotEndWell) {
  StaticGraph graph(2);
  graph.begin_pass();
  graph.arrive(0);
  graph.arrive(1);
  graph.begin_pass();
  graph.arrive(1);
  graph.freeze();
  EXPECT_TRUE(graph.is_unused(0));
  graph.begin_pass();
  EXPECT_EQ(graph.arrive(1), Arrival::complete);
}

TEST(StaticGraph, RefusesGradientsThatItDoesNotHave) {
  StaticGraph graph(1);
  EXPECT_THROW(graph.arrive(1), std::out_of_range);
  EXPECT_THROW(static_cast<void>(graph.is_unused(1)), std::out_of_range);
}

}  // namespace
}  // namespace lockstep
