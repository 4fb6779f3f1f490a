#include "ddp/base/waiting.h"

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <stdexcept>

namespace lockstep {
namespace {

using namespace std::chrono_literals;

const auto kNoExcuse = [] { return std::string("it took too long"); };

TEST(Waiting, PollsUntilTheConditionHolds) {
  int polls = 0;
  EXPECT_TRUE(poll_until(Deadline::max(), [&] { return ++polls == 3; }));
  EXPECT_EQ(polls, 3);
}

TEST(Waiting, PollsOnceEvenIfTheDeadlineHasPassed) {
  int polls = 0;
  EXPECT_FALSE(poll_until(deadline_in(-1s), [&] { return ++polls == 2; }));
  EXPECT_EQ(polls, 1);
  EXPECT_TRUE(poll_until(deadline_in(-1s), [] { return true; }));
}

TEST(Waiting, TimeLeftIsNeverZero) {
  EXPECT_EQ(time_left(deadline_in(-1s)), 1ms);
  EXPECT_GT(time_left(deadline_in(1h)), 59min);
}

TEST(Waiting, ACallInTimeReturnsOrThrowsWhatItsFunctionDoes) {
  EXPECT_EQ(in_time<int>(
                20s, [] { return 7; }, kNoExcuse),
            7);
  EXPECT_THROW(in_time<int>(
                   20s, []() -> int { throw std::out_of_range("seven"); }, kNoExcuse),
               std::out_of_range);
}

TEST(Waiting, ACallThatHangsIsLeftBehindWithWhatItOwns) {
  const auto gate = std::make_shared<std::promise<void>>();
  const auto is_left = std::make_shared<std::promise<void>>();
  const std::function<int()> hang = [gate, is_left] {
    gate->get_future().wait();
    is_left->set_value();
    return 0;
  };
  EXPECT_THROW(in_time<int>(1ms, hang, kNoExcuse), std::runtime_error);
  gate->set_value();
  EXPECT_EQ(is_left->get_future().wait_for(20s), std::future_status::ready);
}

TEST(Waiting, GivingUpEndsAWaitBeforeItsDeadline) {
  const auto gate = std::make_shared<std::promise<void>>();
  const DetachableCall call([gate] { gate->get_future().wait(); });
  int polls = 0;
  EXPECT_FALSE(call.wait_until(Deadline::max(), [&] { return ++polls == 2; }));
  EXPECT_EQ(polls, 2);
  EXPECT_FALSE(call.has_ended());
  gate->set_value();
  EXPECT_TRUE(call.wait_until(deadline_in(20s)));
}

TEST(Waiting, TheFunctionIsDestroyedBeforeTheCallCountsAsEnded) {
  const auto owned = std::make_shared<int>(0);
  const std::weak_ptr<int> watched = owned;
  std::function<void()> function = [owned = std::shared_ptr<int>(owned)] {};
  const DetachableCall call(std::exchange(function, nullptr));
  EXPECT_TRUE(call.wait_until(deadline_in(20s)));
  EXPECT_EQ(watched.use_count(), 1);
}

}  // namespace
}  // namespace lockstep
