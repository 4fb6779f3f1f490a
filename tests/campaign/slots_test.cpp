#include "harness/campaign/slots.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace lockstep {
namespace {

TEST(Slots, AWorldLargerThanAllSlotsTakesAll) {
  Slots slots(4);
  EXPECT_EQ(slots.take(9), 4);
}

TEST(Slots, NeverMoreRanksThanSlots) {
  Slots slots(3);
  std::atomic<int> alive = 0, most = 0;
  std::vector<std::jthread> threads;
  for (int ranks = 1; ranks <= 3; ++ranks)
    threads.emplace_back([&, ranks] {
      for (int turn = 0; turn < 500; ++turn) {
        const int taken = slots.take(ranks);
        const int now = alive += taken;
        for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
        }
        alive -= taken;
        slots.give_back(taken);
      }
    });
  threads.clear();
  EXPECT_LE(most, 3);
  EXPECT_EQ(slots.take(3), 3) << "every slot came back";
}

TEST(Slots, ClosingWakesWhoWaits) {
  Slots slots(1);
  ASSERT_EQ(slots.take(1), 1);
  int got = -1;
  std::jthread waiting([&] { got = slots.take(1); });
  slots.close();
  waiting.join();
  EXPECT_EQ(got, 0);
}

}  // namespace
}  // namespace lockstep
