// Checks that a process of a launched campaign refuses a stranger who takes the part of rank 0 or
// of a member.
#include "harness/base/text.h"
#include "harness/cases/tier.h"
#include "harness/process/message.h"
#include "harness/worlds/launched/agent.h"
#include "harness/worlds/launched/launched_tier.h"
#include "tests/mutations.h"
#include "tests/worlds/forked/toys.h"

#include <future>
#include <poll.h>
#include <sys/socket.h>

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using testing_support::mutated;
namespace fs = std::filesystem;

constexpr char kHere[] = "127.0.0.1";

// A process of a campaign as it is once welcome: its server, and what stands between that and rank
// 0, whose part the test takes.
class LiveMember : public testing_support::LeavesNothing {
 protected:
  void SetUp() override {
    ServedStore(kHere, listen_on(kHere));  // leaves two descriptors of libuv's, for good
    LeavesNothing::SetUp();
    fs::create_directories(folder_ / "outside" / "kept");
    fs::create_directories(folder_ / "scratch");
    server_ = launched_server({}, {toy_scenario()}, Subjects{Subject{.name = "bare"}},
                              {.journal_bytes = size_t{16} << 20, .scratch = folder_ / "scratch"});
    std::array<int, 2> ends{};
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
    rank_zero_ = Descriptor(ends[0]);
    member_ = Descriptor(ends[1]);
    store_ = std::make_unique<ServedStore>(kHere, listen_on(kHere));
    serving_ = std::async(std::launch::async,
                          [&] { return serve_rank_zero(member_, *server_, interrupted_); });
  }
  void TearDown() override {
    rank_zero_.close();
    if (serving_.valid()) serving_.get();
    server_.reset();
    store_.reset();
    member_.close();
    EXPECT_EQ(testing_support::entries(folder_ / "outside"), std::vector<std::string>{"kept"});
    EXPECT_TRUE(testing_support::entries(folder_ / "scratch").empty());
    EXPECT_EQ(testing_support::entries(folder_).size(), 2u) << "something was written beside them";
    fs::remove_all(folder_);
    LeavesNothing::TearDown();
  }

  // The request of a world of one whose rank does nothing.
  std::string request() const {
    return text_of(MemberRequest{
        .run = RankRequest{.of = {.scenario = "toy.acts",
                                  .subject = "bare",
                                  .tier = "launched",
                                  .backend = "gloo",
                                  .time_limit = 20s,
                                  .case_value = to_json(Toy{.world = {.size = 1}}).dump()},
                           .store_address = kHere,
                           .store_port = store_->port(),
                           .listens_on = kHere}});
  }

  // The first line is the fields.
  std::string request_with(const std::string& field, const Json& value,
                           bool of_case = false) const {
    auto lines = split(request(), '\n');
    Json fields = Json::parse(lines.at(0));
    (of_case ? fields["run"]["case"] : fields["run"])[field] = value;
    lines[0] = fields.dump();
    return joined(lines, "\n");
  }

  void send(ServerWord word, const std::string& text) const {
    send_message(rank_zero_.number(), {static_cast<uint32_t>(word), text});
  }

  // Nothing where there is none by then.
  std::optional<Message> answer(std::chrono::milliseconds patience = 60s) const {
    pollfd readable{rank_zero_.number(), POLLIN, 0};
    if (poll(&readable, 1, static_cast<int>(patience.count())) != 1) return {};
    return receive_message(rank_zero_.number());
  }

  Message answer_to(const std::string& text) const {
    send(ServerWord::request, text);
    return answer().value_or(Message{.kind = 0, .text = "no answer"});
  }

  static bool is(ServerWord word, const Message& received) {
    return received.kind == static_cast<uint32_t>(word);
  }

  const fs::path folder_ = fs::temp_directory_path() / ("strangers." + std::to_string(getpid()));
  std::unique_ptr<Zygote> server_;
  Descriptor rank_zero_, member_;
  std::unique_ptr<ServedStore> store_;
  std::atomic<bool> interrupted_ = false;
  std::future<CampaignEnd> serving_;
};

TEST_F(LiveMember, RunsARankForAValidRequest) {
  EXPECT_TRUE(is(ServerWord::reply, answer_to(request())));
}

// The message once named the folder that is removed between cases.
TEST_F(LiveMember, RemovesNoFolderThatAMessageNames) {
  for (const std::string& name : {(folder_ / "outside").string(), std::string("../outside")})
    for (int twice = 0; twice < 2; ++twice) answer_to(request_with("scratch", name));
  EXPECT_TRUE(fs::exists(folder_ / "outside" / "kept"));
}

TEST_F(LiveMember, WritesNoOutputWhereAMessageSays) {
  answer_to(request());
  const auto received = answer_to(text_of(LaneRequest{.keep = KeepRequest{folder_ / "chosen"}}));
  EXPECT_TRUE(is(ServerWord::failure, received)) << received.text;
  EXPECT_FALSE(fs::exists(folder_ / "chosen"));
}

TEST_F(LiveMember, RefusesAFieldOutOfItsRangeByName) {
  struct Wrong {
    std::string field;
    Json value;
    std::string why;
    bool of_case = false;
  };
  const std::vector<Wrong> kWrong = {
      {"listens_on", "0.0.0.0", "expected a numeric address of one host, found \"0.0.0.0\""},
      {"listens_on", "::", "expected a numeric address of one host, found \"::\""},
      {"store_address", "example.org", "expected a numeric address of one host"},
      {"store_port", 0, "0 is too small; the least is 1"},
      {"store_port", 65536, "65536 is too large; the most is 65535"},
      {"size", 1025, "1025 is too large", true},
      {"rank", -1, "-1 is too small"},
      {"time_limit", 0, "0 is too small", true},
      {"scenario", "a\x1b[2J", "expected one line without control characters", true},
      {"subject", std::string(4097, 'x'), "a text of 4097 bytes is too long", true},
      {"device", Json{{"index", 1024}}, "1024 is too large"}};
  for (const auto& [field, value, why, of_case] : kWrong) {
    const auto received = answer_to(request_with(field, value, of_case));
    EXPECT_TRUE(is(ServerWord::failure, received));
    EXPECT_NE(received.text.find((of_case ? ".run.case." : ".run.") + field), std::string::npos)
        << received.text;
    EXPECT_NE(received.text.find(why), std::string::npos) << received.text;
  }
  const auto beyond = answer_to(request_with("rank", 1));
  EXPECT_NE(beyond.text.find("is for rank 1 of a world of 1"), std::string::npos) << beyond.text;
}

TEST_F(LiveMember, RefusesAFieldThatIsMissingOrUnknownByName) {
  auto lines = split(request(), '\n');
  Json fields = Json::parse(lines.at(0));
  fields["run"].erase("listens_on");
  lines[0] = fields.dump();
  EXPECT_NE(answer_to(joined(lines, "\n")).text.find("has no 'listens_on'"), std::string::npos);
  EXPECT_NE(answer_to(request_with("scratch", "/")).text.find("unknown field 'scratch'"),
            std::string::npos);
}

TEST_F(LiveMember, EndsWithASentenceAtAMessageThatNoRankZeroSends) {
  send_message(rank_zero_.number(), {4711, "x"});
  const auto how = serving_.get();
  EXPECT_FALSE(how.is_whole);
  EXPECT_TRUE(how.why.starts_with("rank 0 sent a message of kind 4711 and 1 bytes")) << how.why;
}

// TearDown looks at what was written and removed.
TEST_F(LiveMember, AnswersWhateverComesAndLivesOn) {
  std::mt19937_64 random(18);
  for (int i = 0; i < 150; ++i) {
    const auto text = mutated(request(), random);
    send(ServerWord::request, text);
    auto received = answer(500ms);
    if (!received) {  // its rank waits, as it was asked to
      send(ServerWord::stop, "");
      received = answer();
    }
    ASSERT_TRUE(received) << i << ": "
                          << Json(text).dump(-1, ' ', true, Json::error_handler_t::replace);
    if (is(ServerWord::failure, *received)) EXPECT_FALSE(received->text.empty());
  }
  EXPECT_TRUE(is(ServerWord::reply, answer_to(request())));
}

// Rank 0's lane, and a member whose answer to its first case is there already.
class AStrangeMember : public testing_support::LeavesNothing {
 protected:
  void SetUp() override {
    ServedStore(kHere, listen_on(kHere));
    LeavesNothing::SetUp();
  }

  static std::string lost_after(const Message& answer) {
    std::array<int, 2> ends{};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
    const Descriptor member(ends[1]);
    LaunchedParts parts{
        .server = launched_server({}, {toy_scenario()}, Subjects{Subject{.name = "bare"}},
                                  {.journal_bytes = size_t{16} << 20}),
        .own = handshake_of(0, kHere, "token", {})};
    parts.members.push_back({handshake_of(1, kHere, "", {}), Descriptor(ends[0])});
    const auto lane = std::make_unique<LaunchedTier>(std::move(parts));
    send_message(member.number(), answer);
    try {
      lane->run(toy_scenario(), {"toy.acts", to_json(Toy{.world = {.size = 2}})},
                {"bare", "launched", "gloo"}, {20s});
    } catch (const TierLost& error) {
      ::shutdown(member.number(), SHUT_RDWR);
      return error.what();
    }
    return "not lost";
  }

  static Message reply(const std::string& text) {
    return {static_cast<uint32_t>(ServerWord::reply), text};
  }
};

TEST_F(AStrangeMember, IsLostAndNamedWhateverItReplies) {
  const std::string deep(100000, '[');
  const auto with_end = [](const std::string& end) {
    return reply(R"({"end":)" + end + R"(,"left_running":0,"stacks":[],"overflowed":false})" +
                 "\n");
  };
  for (const auto& answer :
       {reply(""), reply("{}\n"), reply(deep + "\n"), with_end("[]"), with_end("{}"),
        with_end(R"({"kind":77,"code":66})"), with_end(R"({"kind":0,"code":999999999999})"),
        reply(R"({"end":{"kind":0,"code":66},"left_running":0,"stacks":[],"overflowed":false})"),
        Message{4711, ""}}) {
    const auto why = lost_after(answer);
    EXPECT_NE(why.find("rank 1 (process "), std::string::npos) << why;
    EXPECT_NE(why.find("sent what no member sends: "), std::string::npos) << why;
  }
}

}  // namespace
}  // namespace lockstep
