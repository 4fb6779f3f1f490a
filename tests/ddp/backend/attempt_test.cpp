#include "ddp/backend/nccl/attempt.h"

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <stdexcept>

namespace lockstep {
namespace {

using namespace std::chrono_literals;

// Counts what the functions of an attempt did. It outlives an attempt that was given up.
struct Done {
  int calls = 0;
  std::promise<void> cleaned_up;
};

bool is_cleaned_up(Done& done, std::chrono::seconds patience) {
  return done.cleaned_up.get_future().wait_for(patience) == std::future_status::ready;
}

Attempt attempt(const std::shared_ptr<Done>& done, const std::function<void()>& call) {
  return {.call =
              [done, call] {
                ++done->calls;
                call();
              },
          .clean_up = [done] { done->cleaned_up.set_value(); },
          .time = 20s,
          .peer_error = {}};
}

TEST(Attempts, ThatReturnAreMadeOnceAndLeaveNothingToCleanUp) {
  const auto done = std::make_shared<Done>();
  EXPECT_EQ(make_attempt(attempt(done, [] {}), "late"), "");
  EXPECT_EQ(done->calls, 1);
  EXPECT_FALSE(is_cleaned_up(*done, 0s));
}

TEST(Attempts, ThatThrowAreCleanedUpAndThrowTheSame) {
  const auto done = std::make_shared<Done>();
  EXPECT_THROW(make_attempt(attempt(done, [] { throw std::out_of_range("no device"); }), "late"),
               std::out_of_range);
  EXPECT_TRUE(is_cleaned_up(*done, 0s));
}

TEST(Attempts, ThatTakeTooLongAreGivenUpAndCleanedUpOnceTheyReturn) {
  const auto done = std::make_shared<Done>();
  const auto gate = std::make_shared<std::promise<void>>();
  Attempt slow = attempt(done, [gate] { gate->get_future().wait(); });
  slow.time = 1ms;
  EXPECT_EQ(make_attempt(std::move(slow), "late"), "late");
  gate->set_value();
  EXPECT_TRUE(is_cleaned_up(*done, 20s));
}

TEST(Attempts, EndWithTheErrorOfAPeer) {
  const auto done = std::make_shared<Done>();
  const auto gate = std::make_shared<std::promise<void>>();
  Attempt hopeless = attempt(done, [gate] { gate->get_future().wait(); });
  hopeless.peer_error = [] { return std::string("rank 1 has no device"); };
  EXPECT_EQ(make_attempt(std::move(hopeless), "late"), "rank 1 has no device");
  gate->set_value();
  EXPECT_TRUE(is_cleaned_up(*done, 20s));
}

}  // namespace
}  // namespace lockstep
