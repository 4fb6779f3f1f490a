#include "ddp/reducer/static_graph.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace lockstep {
namespace {

using Arrival = StaticGraph::Arrival;

TEST(StaticGraph, LearnsInTheFirstPassAndCountsDownInLaterOnes) {
  StaticGraph graph(3);
  StaticGraph::Pass first(graph);
  for (const std::size_t index : {0U, 1U, 0U}) EXPECT_EQ(first.arrive(index), Arrival::incomplete);
  EXPECT_TRUE(first.has_arrived(0));
  EXPECT_FALSE(first.has_arrived(2));
  graph.freeze(first, {true, true, false});
  EXPECT_FALSE(graph.is_unused(0));
  EXPECT_TRUE(graph.is_unused(2));
  for (int i = 0; i < 2; ++i) {
    StaticGraph::Pass pass(graph);
    EXPECT_EQ(pass.arrive(0), Arrival::incomplete);
    EXPECT_EQ(pass.arrive(1), Arrival::complete);
    EXPECT_EQ(pass.arrive(1), Arrival::unexpected);
    EXPECT_EQ(pass.arrive(0), Arrival::complete);
    EXPECT_EQ(pass.arrive(2), Arrival::unexpected);
  }
}

TEST(StaticGraph, ForgetsAFirstPassThatDidNotEndWell) {
  StaticGraph graph(2);
  StaticGraph::Pass(graph).arrive(0);
  StaticGraph::Pass first(graph);
  first.arrive(1);
  graph.freeze(first, {false, true});
  EXPECT_TRUE(graph.is_unused(0));
  StaticGraph::Pass pass(graph);
  EXPECT_EQ(pass.arrive(1), Arrival::complete);
}

TEST(StaticGraph, TakesEveryParameterForUsedUntilTheFirstPassHasEnded) {
  StaticGraph graph(2);
  EXPECT_EQ(graph.used_somewhere(), (std::vector<bool>{true, true}));
  graph.freeze(StaticGraph::Pass(graph), {false, true});
  EXPECT_EQ(graph.used_somewhere(), (std::vector<bool>{false, true}));
}

TEST(StaticGraph, RefusesGradientsThatItDoesNotHave) {
  StaticGraph graph(1);
  EXPECT_THROW(StaticGraph::Pass(graph).arrive(1), std::out_of_range);
  EXPECT_THROW(static_cast<void>(graph.is_unused(1)), std::out_of_range);
}

}  // namespace
}  // namespace lockstep
