#include "ddp/comm/failure_notice.h"

#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace lockstep {
namespace {

// Its server has gone: it throws whatever it is asked.
struct StoreThatIsGone : c10d::HashStore {
  bool check(const std::vector<std::string>&) override {
    ++asked;
    throw std::runtime_error("connection closed");
  }
  int asked = 0;
};

// Two ranks that share a store, in one thread.
class FailureNotices : public ::testing::Test {
 protected:
  std::unique_ptr<FailureNotice> rank(int number) {
    return std::make_unique<FailureNotice>(store_, number, "instance");
  }
  // Issues collectives; returns how many were issued before the last one.
  static std::int64_t issue(FailureNotice& rank, int count) {
    std::int64_t before = 0;
    for (int i = 0; i < count; ++i) before = rank.count_issue();
    return before;
  }

  c10::intrusive_ptr<c10d::Store> store_ = c10::make_intrusive<c10d::HashStore>();
  std::unique_ptr<FailureNotice> here_ = rank(0), peer_ = rank(1);
};

TEST_F(FailureNotices, OfAForwardEndWaitsForWhatItsRankHasNotIssued) {
  for (const auto& each : {&here_, &peer_}) (*each)->begin_forward(1);
  issue(*peer_, 3);
  peer_->post_thrown_forward("forward threw: a bad batch");
  EXPECT_EQ(here_->read(issue(*here_, 3)), std::nullopt) << "it has issued this one";
  EXPECT_EQ(here_->read(issue(*here_, 1)), "rank 1 reported: forward threw: a bad batch");
  EXPECT_EQ(peer_->read(3), std::nullopt) << "its own";
}

TEST_F(FailureNotices, OfAForwardAreNothingToARankThatHasNotBegunItAndLags) {
  here_->begin_forward(1);
  peer_->begin_forward(2);
  issue(*peer_, 3);
  peer_->post_thrown_forward("forward threw: a bad batch");
  EXPECT_EQ(here_->read(issue(*here_, 2)), std::nullopt);
}

TEST_F(FailureNotices, OfAForwardAreNothingToARankWhoseOwnForwardThrew) {
  for (const auto& each : {&here_, &peer_}) (*each)->begin_forward(1);
  peer_->post_thrown_forward("forward threw: a bad batch");
  here_->post_thrown_forward("forward threw: another bad batch");
  EXPECT_EQ(here_->read(issue(*here_, 1)), std::nullopt);
}

TEST_F(FailureNotices, OfAForwardAreNothingOnceAnythingElseHasBegun) {
  for (const bool is_forward : {true, false}) {
    for (const auto& each : {&here_, &peer_}) (*each)->begin_forward(1);
    peer_->post_thrown_forward("forward threw: a bad batch");
    is_forward ? here_->begin_forward(2) : here_->begin_other();
    EXPECT_EQ(here_->read(issue(*here_, 1)), std::nullopt);
  }
}

// As where one rank evaluates more often than its peers, or has run out of inputs before them.
TEST_F(FailureNotices, OfAForwardDoNotDependOnHowManyOthersARankHasMade) {
  for (int i = 0; i < 5; ++i) peer_->begin_other();
  for (const auto& each : {&here_, &peer_}) (*each)->begin_forward(1);
  peer_->post_thrown_forward("forward threw: a bad batch");
  EXPECT_NE(here_->read(issue(*here_, 1)), std::nullopt);
  here_->begin_forward(2);
  EXPECT_EQ(here_->read(issue(*here_, 1)), std::nullopt);
}

// Ranks make alike those in which they exchange something, and no others.
TEST_F(FailureNotices, OfALocalForwardAreOfOneInWhichRanksExchangeSomething) {
  for (const auto& each : {&here_, &peer_}) (*each)->begin_forward(1);
  peer_->begin_other();
  peer_->post_thrown_forward("forward threw: a bad batch");
  EXPECT_EQ(here_->read(0), std::nullopt);
  for (const auto& each : {&here_, &peer_}) (*each)->begin_local_exchange();
  peer_->post_thrown_forward("forward threw: a bad batch");
  EXPECT_EQ(here_->read(0), "rank 1 reported: forward threw: a bad batch");
  for (const auto& next : {&FailureNotice::begin_other, &FailureNotice::begin_local_exchange}) {
    (*here_.*next)();
    EXPECT_EQ(here_->read(0), std::nullopt);
  }
  here_->begin_forward(2);
  EXPECT_EQ(here_->read(0), std::nullopt);
}

// All ranks are refused, and call update_trainable_parameters().
TEST_F(FailureNotices, OfARefusedForwardAreOfThatForwardToo) {
  for (const auto& each : {&here_, &peer_}) (*each)->begin_forward(1);
  peer_->post_refused_forward("parameter 'w' was frozen");
  EXPECT_EQ(here_->read(issue(*here_, 1)), "rank 1 reported: parameter 'w' was frozen");
  here_->begin_other();
  EXPECT_EQ(here_->read(issue(*here_, 1)), std::nullopt);
}

TEST_F(FailureNotices, OfABackwardEndAllWaitsInIt) {
  for (const auto& each : {&here_, &peer_}) (*each)->begin_forward(1);
  issue(*peer_, 5);
  peer_->post_thrown_backward("an exception was thrown in the backward pass");
  EXPECT_NE(here_->read(issue(*here_, 1)), std::nullopt);
}

TEST_F(FailureNotices, ForGoodReplaceOthersAndStay) {
  for (const auto& each : {&here_, &peer_}) (*each)->begin_forward(1);
  const auto third = rank(2);
  third->begin_forward(1);
  third->post_thrown_forward("forward threw: a bad batch");
  issue(*peer_, 5);
  peer_->post("it cannot continue");
  here_->begin_forward(2);
  EXPECT_EQ(here_->read(issue(*here_, 1)), "rank 1 reported: it cannot continue");
}

// Its peers end because of it, and it may wait for them in the rest of its pass.
TEST_F(FailureNotices, ForGoodReachTheRankThatPostedFirst) {
  here_->post("forward in backward");
  EXPECT_EQ(here_->read(0), std::nullopt);
  EXPECT_EQ(peer_->read(0), "rank 0 reported: forward in backward");
  peer_->post("all-reduce failed: rank 0 reported: forward in backward");
  EXPECT_EQ(here_->read(0),
            "rank 1 reported: all-reduce failed: rank 0 reported: forward in backward");
  EXPECT_EQ(peer_->read(0), "rank 0 reported: forward in backward");
}

TEST_F(FailureNotices, ForGoodSayWhyTheForwardThrew) {
  peer_->begin_forward(1);
  peer_->post_thrown_forward("forward threw: a bad batch");
  peer_->post("it cannot continue");
  here_->begin_forward(7);
  EXPECT_EQ(here_->read(0), "rank 1 reported: forward threw: a bad batch");
}

// As where all ranks skip a batch together, and one of them fails later.
TEST_F(FailureNotices, ForGoodSayNothingOfAForwardThatAnotherFollowed) {
  peer_->begin_forward(1);
  peer_->post_thrown_forward("forward threw: a bad batch");
  peer_->begin_forward(2);
  peer_->post("it cannot continue");
  here_->begin_forward(2);
  EXPECT_EQ(here_->read(0), "rank 1 reported: it cannot continue");
}

// Each question may take two seconds.
TEST(FailureNoticesInAStoreThatIsGone, AskItOnce) {
  const auto store = c10::make_intrusive<StoreThatIsGone>();
  FailureNotice notice(store, 0, "instance");
  notice.begin_forward(1);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(notice.read(notice.count_issue()), std::nullopt);
  EXPECT_EQ(store->asked, 1);
  EXPECT_EQ(store.use_count(), 1) << "and none holds it afterwards";
}

}  // namespace
}  // namespace lockstep
