// Checks the messages between the processes of a campaign, as anyone might send them.
#include "harness/worlds/launched/messages.h"

#include "harness/cases/tier.h"
#include "harness/process/secret.h"
#include "harness/worlds/launched/remotes.h"
#include "tests/mutations.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>

namespace lockstep {
namespace {

using namespace std::chrono_literals;

constexpr char kOurs[] = "127.0.0.1";

// Test case 2 of RFC 4231, and 6: a key that is longer than a block.
TEST(Secrets, AreProvedByHmacSha256) {
  EXPECT_EQ(proof_of("Jefe", "what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(
      proof_of(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First"),
      "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  EXPECT_TRUE(same_proof("ab", "ab"));
  EXPECT_FALSE(same_proof("ab", "ac"));
  EXPECT_FALSE(same_proof("ab", "abc"));
}

// A short form: every message from the wire, changed at random, is read or refused with a sentence.
TEST(Messages, ThatAreChangedAreReadOrRefused) {
  auto whole =
      handshake_of(1, kOurs, "token", {.subjects = {{"own", ""}}, .scenarios = {{"a.holds", "1"}}});
  whole.local_rank = 1;
  whole.devices["nccl"] = {.names = {"x"}, .kind = "GPU", .problem = "", .is_own = true};
  const RankRequest request{.of = {.scenario = "a.holds",
                                   .subject = "own",
                                   .tier = "launched",
                                   .backend = "gloo",
                                   .size = 2,
                                   .time_limit = 1s,
                                   .case_value = R"({"world":{"size":2},"samples":[1,2]})"},
                            .rank = 1,
                            .store_address = kOurs,
                            .store_port = 4711,
                            .listens_on = kOurs,
                            .device = DeviceAssignment{.world = "w"}};
  const RankReply reply{.end = {ChildEnd::Kind::exited, 66},
                        .stacks = {{.thread = 1, .name = "main", .frames = {1, 2}, .instead = ""}},
                        .journal = "journal"};
  const CaseRequest of_lane{.scenario = "a.holds",
                            .subject = "own",
                            .tier = "cold",
                            .backend = "gloo",
                            .time_limit = 1s,
                            .case_value = "{}"};
  CaseReply by_lane{.left = {{}, {"a thread"}}, .stacks = {{1, reply.stacks}}};
  by_lane.group.ends = {reply.end, reply.end};
  LookReply looked{.out = "out", .err = "err", .frames = {}};
  looked.frames[7].push_back({.function = "main", .file = "x.cpp", .line = 1});
  struct Kind {
    std::string valid;
    std::function<void(const std::string&)> read;
  };
  const std::vector<Kind> kinds = {
      {text_of(whole), [](const auto& text) { handshake_in(text); }},
      {text_of(MemberRequest{.run = request}), [](const auto& text) { member_request_in(text); }},
      {text_of(MemberRequest{.look = LookRequest{{1, 2}}}),
       [](const auto& text) { member_request_in(text); }},
      {text_of(reply), [](const auto& text) { rank_reply_in(text); }},
      {text_of(LaneRequest{.run = of_lane}), [](const auto& text) { lane_request_in(text); }},
      {text_of(LaneRequest{.keep = KeepRequest{"a folder"}}),
       [](const auto& text) { lane_request_in(text); }},
      {text_of(by_lane), [](const auto& text) { case_reply_in(text); }},
      {text_of(looked), [](const auto& text) { look_reply_in(text); }},
      {text_of(CampaignEnd{.is_whole = false, .why = "x"}),
       [](const auto& text) { campaign_end_in(text); }},
      {text_of(RankZero{.address = kOurs, .port = 1, .token = "t"}, ""),
       [](const auto& text) { rank_zero_in(text, ""); }}};
  std::mt19937_64 random(18);
  for (const auto& [valid, read] : kinds) {
    EXPECT_NO_THROW(read(valid)) << valid;
    const std::string deep = std::string(100000, '[');
    for (int i = 0; i < 2000; ++i) {
      const auto text = i == 0   ? deep
                        : i == 1 ? valid + deep
                                 : testing_support::mutated(valid, random);
      try {
        read(text);
      } catch (const TierError& error) {
        EXPECT_NE(std::string(error.what()), "");
      }
    }
  }
}

TEST(Messages, ReadAsTheyWereWritten) {
  CaseReply reply{.left = {{}, {"a thread"}}, .left_running = 3, .choices = {{1, 2}}};
  reply.group.ends = {
      {ChildEnd::Kind::exited, 66}, {ChildEnd::Kind::exited, 66}, {ChildEnd::Kind::signalled, 9}};
  reply.stacks[2] = {{.thread = 1, .name = "main", .frames = {1, 2}, .instead = ""},
                     {.thread = 2, .name = "x", .frames = {}, .instead = "stopped"}};
  const auto read = case_reply_in(text_of(reply));
  EXPECT_EQ(read.group.ends, reply.group.ends);
  EXPECT_EQ(std::tie(read.left, read.left_running, read.stacks, read.choices),
            std::tie(reply.left, reply.left_running, reply.stacks, reply.choices));
  // Bytes are as they are, lines among them.
  const RankReply of_rank{.end = {ChildEnd::Kind::stuck, 15}, .journal = "a\n\xff\n"};
  EXPECT_EQ(rank_reply_in(text_of(of_rank)).journal, of_rank.journal);
  EXPECT_EQ(rank_reply_in(text_of(of_rank)).end, of_rank.end);
}

}  // namespace
}  // namespace lockstep
