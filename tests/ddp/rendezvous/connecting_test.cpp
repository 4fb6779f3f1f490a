#include "ddp/rendezvous/connecting.h"

#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include <future>
#include <memory>
#include <stdexcept>

namespace lockstep {
namespace {

using namespace std::chrono_literals;

// The connection error of one rank whose rendezvous has succeeded; empty where all are connected.
std::string connection_error(const c10::intrusive_ptr<c10d::Store>& store,
                             const RankAndSize& position, std::chrono::milliseconds timeout,
                             const std::string& problem) {
  try {
    connect_in(store, position, timeout, [problem] {
      if (!problem.empty()) throw std::runtime_error(problem);
    });
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

TEST(Connecting, ARankThatCannotConnectIsEverybodysReason) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  auto other = std::async(std::launch::async, [&] {
    return connection_error(store, {.rank = 0, .world_size = 2}, 20s, "");
  });
  const std::string own =
      connection_error(store, {.rank = 1, .world_size = 2}, 20s, "over gloo: no memory");
  EXPECT_EQ(own, "rank 1 cannot connect over gloo: no memory");
  EXPECT_EQ(other.get(), own);
}

TEST(Connecting, RanksThatDoNotConnectAreNamed) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  EXPECT_EQ(connection_error(store, {.rank = 1, .world_size = 3}, 200ms, ""),
            "all ranks came, and these did not answer: 0, 2 (these wait to be "
            "connected: 1)");
}

// One that is still busy answers when it is asked who is there.
TEST(Connecting, RanksThatAreStillConnectingAreNamed) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  const auto end = std::make_shared<std::promise<void>>();
  auto busy = std::async(std::launch::async, [&] {
    try {
      connect_in(store, {.rank = 0, .world_size = 2}, 20s, [end] { end->get_future().wait(); });
      return std::string("connected");
    } catch (const std::exception& error) {
      return std::string(error.what());
    }
  });
  const std::string own = connection_error(store, {.rank = 1, .world_size = 2}, 200ms, "");
  EXPECT_EQ(own, "all ranks came, and these did not connect: 0 (these did: 1)");
  EXPECT_EQ(busy.get(), own);
  end->set_value();
}

}  // namespace
}  // namespace lockstep
