#include "harness/worlds/holdings.h"

#include "harness/process/network.h"

#include <gtest/gtest.h>

#include <thread>

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using Phrases = std::vector<std::string>;

constexpr const char* kHere = "127.0.0.1";

std::chrono::steady_clock::time_point patience() {
  return std::chrono::steady_clock::now() + 30s;
}

// A case that connects to its own process has made the one end, which it must close.
TEST(Holdings, AConnectionThatAListeningSocketOfBeforeAcceptedIsNoLeak) {
  const auto listener = listen_on(kHere);
  const auto before = Holdings::now();
  auto stranger = connect_to(kHere, listener.port, patience());
  const auto accepted = accept_from(listener.socket, patience());
  ASSERT_GE(accepted.number(), 0);
  EXPECT_EQ(before.more_in(before.later()), Phrases{"1 open descriptor(s) more than before"});
  stranger.close();
  EXPECT_EQ(before.more_in(before.later()), Phrases{});
}

TEST(Holdings, AConnectionThatWasThereHidesNoLeakWhenItIsGone) {
  const auto listener = listen_on(kHere);
  const auto stranger = connect_to(kHere, listener.port, patience());
  auto accepted = accept_from(listener.socket, patience());
  const auto before = Holdings::now();
  accepted.close();
  const auto leaked = listen_on(kHere);
  EXPECT_EQ(before.more_in(before.later()), Phrases{"1 open descriptor(s) more than before"});
}

TEST(Holdings, SocketsThatACaseMakesAreLeaks) {
  const auto before = Holdings::now();
  const auto listener = listen_on(kHere);
  EXPECT_EQ(before.more_in(before.later()), Phrases{"1 open descriptor(s) more than before"});
  const auto client = connect_to(kHere, listener.port, patience());
  const auto accepted = accept_from(listener.socket, patience());
  EXPECT_EQ(before.more_in(before.later()), Phrases{"3 open descriptor(s) more than before"});
}

// The thread that closes it ends a moment after the case; the limit is for a busy machine.
TEST(Holdings, WhatEndsInTheBackgroundIsNoLeak) {
  const auto before = Holdings::now();
  auto listener = listen_on(kHere);
  const std::jthread closer([&] {
    accept_from(listener.socket, std::chrono::steady_clock::now() + 20ms);
    listener.socket.close();
  });
  EXPECT_EQ(before.lasting_more(30s), Phrases{});
}

TEST(Holdings, WhatStaysIsALeak) {
  const auto before = Holdings::now();
  const auto listener = listen_on(kHere);
  EXPECT_EQ(before.lasting_more(10ms), Phrases{"1 open descriptor(s) more than before"});
}

}  // namespace
}  // namespace lockstep
