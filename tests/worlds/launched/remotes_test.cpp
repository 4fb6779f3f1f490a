#include "harness/worlds/launched/remotes.h"

#include "harness/cases/tier.h"
#include "harness/process/message.h"
#include "harness/worlds/launched/agent.h"

#include <gtest/gtest.h>

#include <future>
#include <sys/socket.h>
#include <thread>

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using namespace std::string_literals;

constexpr char kHere[] = "127.0.0.1";

std::chrono::steady_clock::time_point in(std::chrono::milliseconds time) {
  return std::chrono::steady_clock::now() + time;
}

RunnableProgram program(const std::string& scenario = "a.holds", const std::string& cases = "1") {
  return {.subjects = {{"own", ""}}, .scenarios = {{scenario, cases}}};
}

Handshake handshake(int rank, const RunnableProgram& what = program(),
                    const std::string& token = "token") {
  return handshake_of(rank, kHere, token, what);
}

// Why it did not work, or "".
template <class Try>
std::string reason(const Try& trial) {
  try {
    trial();
  } catch (const TierError& error) {
    return error.what();
  }
  return "";
}

// The outcomes of rank 0 and of the ranks that join it, by rank.
std::vector<std::string> outcomes(const std::vector<Handshake>& joining, int size,
                                  std::chrono::milliseconds limit = 30s) {
  const auto listener = listen_on(kHere);
  std::vector<std::future<std::string>> members;
  for (const auto& own : joining)
    members.push_back(std::async(std::launch::async, [&] {
      return reason([&] { join(kHere, listener.port, own, in(30s)); });
    }));
  std::vector<std::string> all{reason([&] { gather(listener, handshake(0), size, in(limit)); })};
  for (auto& member : members) all.push_back(member.get());
  return all;
}

TEST(Members, OfOneProgramComeTogether) {
  EXPECT_EQ(outcomes({handshake(2), handshake(1)}, 3), std::vector<std::string>(3));
}

TEST(Members, AreKnownByRankWhoeverCameFirst) {
  const auto listener = listen_on(kHere);
  std::vector<Descriptor> joined(2);
  std::thread second([&] { joined[1] = join(kHere, listener.port, handshake(2), in(30s)); });
  std::thread first([&] { joined[0] = join(kHere, listener.port, handshake(1), in(30s)); });
  const auto members = gather(listener, handshake(0), 3, in(30s));
  first.join();
  second.join();
  ASSERT_EQ(members.size(), 2u);
  EXPECT_EQ(members[0].is.rank, 1);
  EXPECT_EQ(members[1].is.rank, 2);
  EXPECT_EQ(members[0].is.listens_on, kHere);
}

// Seven at five seconds each, one after the other, would take longer than rank 0 has.
TEST(Members, AreNotHeldUpByStrangersThatSayNothingOrLittle) {
  const auto listener = listen_on(kHere);
  std::vector<Descriptor> strangers;
  for (int i = 0; i < 7; ++i) {
    strangers.push_back(connect_to(kHere, listener.port, in(30s)));
    const std::string part = "\x40\0\0\0\x64\0\0"s;  // of a head
    ASSERT_EQ(::send(strangers.back().number(), part.data(), i % 2 ? part.size() : 0, 0),
              i % 2 ? static_cast<ssize_t>(part.size()) : 0);
  }
  std::string why;
  std::thread member(
      [&] { why = reason([&] { join(kHere, listener.port, handshake(1), in(30s)); }); });
  EXPECT_EQ(reason([&] { gather(listener, handshake(0), 2, in(30s)); }), "");
  member.join();
  EXPECT_EQ(why, "");
}

TEST(Members, OfAnotherProgramAreRefusedWithOneSentenceOnAll) {
  const std::string who = "the processes are not of one program: rank 2 ";
  EXPECT_EQ(outcomes({handshake(1), handshake(2, program("b.holds"))}, 3),
            std::vector<std::string>(3, who + "has no scenario 'a.holds', which rank 0 has"));
  EXPECT_EQ(
      outcomes({handshake(1), handshake(2, program("a.holds", "2"))}, 3),
      std::vector<std::string>(3, who + "has a scenario 'a.holds' with other cases than rank 0's"));
  auto more = program();
  more.subjects["another"] = "";
  EXPECT_EQ(outcomes({handshake(1), handshake(2, more)}, 3),
            std::vector<std::string>(3, who + "has the subject 'another', which rank 0 has not"));
}

TEST(Members, ThatSeeOtherDevicesAreRefusedWithOneSentenceOnAll) {
  auto blind = handshake(2);
  blind.devices["nccl"] = {.names = {"x"}};
  const auto all = outcomes({handshake(1), blind}, 3);
  EXPECT_NE(all[0].find("do not see as many devices of the backend nccl"), std::string::npos);
  EXPECT_EQ(all, std::vector<std::string>(3, all[0]));
}

TEST(Members, ThatDoNotComeAreNamedToThoseThatDid) {
  const auto all = outcomes({handshake(2)}, 4, 200ms);
  EXPECT_TRUE(all[0].starts_with("ranks 1, 3 did not connect to rank 0 at 127.0.0.1, port "))
      << all[0];
  EXPECT_EQ(all[1], all[0]);
}

// Before the one who is awaited: behind that one nobody listens any more.
TEST(Members, AStrangerIsTurnedAway) {
  const auto listener = listen_on(kHere);
  std::thread joining([&] {
    const auto stranger = handshake(1, program(), "another token");
    const auto told = reason([&] { join(kHere, listener.port, stranger, in(30s)); });
    EXPECT_NE(told.find("closed the connection"), std::string::npos) << told;
    join(kHere, listener.port, handshake(1), in(30s));
  });
  EXPECT_EQ(gather(listener, handshake(0), 2, in(30s)).size(), 1u);
  joining.join();
}

TEST(Members, AConnectionWithoutAHandshakeIsTurnedAway) {
  const auto listener = listen_on(kHere);
  std::thread strange([&] {
    const auto connection = connect_to(kHere, listener.port, in(30s));
    send_message(connection.number(), {static_cast<uint32_t>(RemoteWord::handshake), "GET /"});
    EXPECT_FALSE(receive_message(connection.number()));
    join(kHere, listener.port, handshake(1), in(30s));
  });
  EXPECT_EQ(gather(listener, handshake(0), 2, in(30s)).size(), 1u);
  strange.join();
}

TEST(Members, WithoutTheSecretAreTurnedAway) {
  const auto listener = listen_on(kHere);
  std::thread joining([&] {
    for (const char* const wrong : {"", "another"}) {
      const auto said = reason([&] { join(kHere, listener.port, handshake(1), in(30s), wrong); });
      EXPECT_NE(said.find("closed the connection"), std::string::npos) << said;
    }
    join(kHere, listener.port, handshake(1), in(30s), "secret");
  });
  EXPECT_EQ(gather(listener, handshake(0), 2, in(30s), "secret").size(), 1u);
  joining.join();
}

TEST(Members, DoNotFollowARankZeroWithoutTheirSecret) {
  const auto listener = listen_on(kHere);
  std::thread strange([&] {
    const auto connection = accept_from(listener.socket, in(30s));
    receive_message(connection.number());
    send_message(connection.number(), {static_cast<uint32_t>(RemoteWord::welcome), ""});
    receive_message(connection.number());
  });
  const auto said = reason([&] { join(kHere, listener.port, handshake(1), in(30s), "secret"); });
  EXPECT_NE(said.find("does not prove that it has the LOCKSTEP_SECRET"), std::string::npos) << said;
  strange.join();
}

TEST(Members, FindRankZeroOnlyWhereItProvesTheirSecret) {
  const RankZero there{.address = kHere, .port = 4711, .token = "token"};
  for (const char* const secret : {"", "secret"}) {
    const auto found = rank_zero_in(text_of(there, secret), secret);
    EXPECT_EQ(std::tie(found.address, found.port, found.token),
              std::tie(there.address, there.port, there.token));
  }
  const auto said = [&](const std::string& theirs, const std::string& own) {
    return reason([&] { rank_zero_in(text_of(there, theirs), own); });
  };
  const std::string cure = "give all processes of the campaign the same LOCKSTEP_SECRET";
  EXPECT_NE(said("secret", "").find("this process has none: " + cure), std::string::npos);
  EXPECT_NE(said("", "secret").find("does not prove"), std::string::npos);
  EXPECT_NE(said("another", "secret").find(cure), std::string::npos);
}

TEST(Members, SayThatARankZeroOfAnotherFormIsOfAnotherBuild) {
  const std::string wrong =
      "the processes are not of one build of the program: the place of rank 0";
  for (const char* const other : {"", "{}", "\n{\"address\":\"127.0.0.1\"}", "{\"proof\":\"\"}"})
    EXPECT_TRUE(reason([&] { rank_zero_in(other, ""); }).starts_with(wrong)) << other;
}

TEST(Members, RankZeroThatIsNotThereIsNamedByItsAddress) {
  const int port = listen_on(kHere).port;  // and closed again
  EXPECT_EQ(reason([&] { join(kHere, port, handshake(1), in(30s)); }),
            "no connection to 127.0.0.1, port " + std::to_string(port) + ": Connection refused");
  auto elsewhere = handshake(1);
  elsewhere.listens_on = "10.0.0.2";
  EXPECT_EQ(reason([&] { join(kHere, port, elsewhere, in(30s)); }),
            "no connection to 127.0.0.1, port " + std::to_string(port) +
                ": Connection refused; that is loopback, which no other host reaches: with ranks "
                "on several hosts give rank 0 the address that the others have as MASTER_ADDR");
}

// A process that has no secret where rank 0 has one, or the other way round, never connects.
TEST(Members, ThatDoNotComeMayHaveAnotherSecret) {
  const auto listener = listen_on(kHere);
  for (const char* const secret : {"", "secret"}) {
    const auto said = reason([&] { gather(listener, handshake(0), 2, in(10ms), secret); });
    const auto cause = said.find(*secret ? "rank 0 has a LOCKSTEP_SECRET, and one with another"
                                         : "rank 0 has no LOCKSTEP_SECRET, and one that has");
    EXPECT_LT(cause, said.find("that is loopback")) << said;
  }
}

TEST(Members, RankZeroThatSaysNothingIsNotWaitedForEver) {
  const auto listener = listen_on(kHere);  // the kernel accepts for it
  EXPECT_NE(reason([&] {
              join(kHere, listener.port, handshake(1), in(100ms));
            }).find("did not answer in time"),
            std::string::npos);
}

TEST(Members, AHelloReadsAsItWasWritten) {
  auto own = handshake(3);
  own.local_rank = 2;
  own.devices["nccl"] = {.names = {"x"}, .kind = "GPU", .problem = "none", .is_own = true};
  const auto read = handshake_in(text_of(own));
  EXPECT_EQ(
      std::tie(read.token, read.rank, read.process, read.host, read.boot, read.listens_on,
               read.program),
      std::tie(own.token, own.rank, own.process, own.host, own.boot, own.listens_on, own.program));
  EXPECT_EQ(read.local_rank, 2);
  EXPECT_EQ(to_json(read.devices), to_json(own.devices));
  EXPECT_FALSE(handshake_in(text_of(handshake(1))).local_rank);
  EXPECT_THROW(handshake_in("{}"), TierError);
}

// A server that answers each request with its text, and what goes between it and rank 0.
class AgentTest : public ::testing::Test {
 protected:
  Zygote server_{
      {}, {.prepare = [] {}, .serve = [](const std::string& text, int) { return "run " + text; }}};
  ListeningSocket listener_ = listen_on(kHere);
  Descriptor rank_zero_ = connect_to(kHere, listener_.port, in(30s));
  Descriptor member_ = accept_from(listener_.socket, in(30s));
  std::atomic<bool> interrupted_ = false;
  std::future<CampaignEnd> serving_ = std::async(
      std::launch::async, [&] { return serve_rank_zero(rank_zero_, server_, interrupted_); });
};

TEST_F(AgentTest, PassesRequestsAndRepliesOnAndEndsAsRankZeroSays) {
  send_message(member_.number(), {static_cast<uint32_t>(ServerWord::request), "a case"});
  EXPECT_EQ(receive_message(member_.number()).value().text, "run a case");
  send_message(member_.number(), {static_cast<uint32_t>(RemoteWord::end),
                                  text_of(CampaignEnd{.is_whole = true, .why = ""})});
  EXPECT_TRUE(serving_.get().is_whole);
}

TEST_F(AgentTest, EndsWhenRankZeroIsGone) {
  member_.close();
  const auto how = serving_.get();
  EXPECT_FALSE(how.is_whole);
  EXPECT_TRUE(how.why.starts_with("rank 0's process ended, or cannot be reached")) << how.why;
}

TEST_F(AgentTest, AsksRankZeroToEndWhenItIsInterruptedAndWaitsForThat) {
  interrupted_ = true;
  EXPECT_EQ(receive_message(member_.number()).value().kind,
            static_cast<uint32_t>(RemoteWord::interrupted));
  send_message(member_.number(), {static_cast<uint32_t>(RemoteWord::end),
                                  text_of(CampaignEnd{.is_whole = true, .why = ""})});
  EXPECT_TRUE(serving_.get().is_whole);
}

TEST_F(AgentTest, SaysThatItsServerIsGone) {
  kill(server_.pid(), SIGKILL);
  EXPECT_NE(serving_.get().why.find("the server process (pid "), std::string::npos);
}

}  // namespace
}  // namespace lockstep
