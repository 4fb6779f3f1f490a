#include "harness/history/frames.h"

#include <gtest/gtest.h>

#include <cstring>

namespace lockstep {
namespace {

RankHistory an_eventful_rank() {
  RankHistory rank;
  rank.events.push_back({{0, "start"}, Observation{"x", int64_values({1, 2, 3})}});
  rank.events.push_back({{0, "start"}, BucketLayout{{{{"w", "b"}, 12}, {{"odd \"name\""}, 3}}}});
  rank.events.push_back({{0, "start"},
                         Collective{.op = "allreduce",
                                    .group = "world",
                                    .dtype = "float32",
                                    .elements = 12,
                                    .done = true,
                                    .bucket = {{0, 2, {"w", "b"}}}}});
  rank.events.push_back({{1, "step"}, Collective{"broadcast", "world", "int64", 1, 3, 0, false}});
  rank.events.push_back({{1, "step"}, Injection{InjectionKind::delay, 1, -1, {1, "step"}, 5}});
  rank.events.push_back({{2, "end"}, LeftBehind{"a thread"}});
  rank.ending = {Ending::Kind::threw, "no"};
  rank.last = {3, "after"};
  return rank;
}

Frames read(const std::string& bytes) {
  return read_frames(reinterpret_cast<const std::byte*>(bytes.data()), bytes.size());
}

TEST(Frames, AHistoryIsReadBackAsItWasWritten) {
  const auto rank = an_eventful_rank();
  EXPECT_EQ(rank_history(read(frames_of(rank)), "rank 0"), rank);
}

TEST(Frames, WhateverIsCutOffTheRecordsBeforeItAreRead) {
  const auto whole = frames_of(an_eventful_rank());
  const auto all = read(whole);
  ASSERT_EQ(all.tail, "");
  size_t last = 0;
  for (size_t size = 0; size < whole.size(); ++size) {
    const auto part = read(whole.substr(0, size));
    EXPECT_LE(part.frames.size(), all.frames.size());
    EXPECT_GE(part.frames.size(), last);
    last = part.frames.size();
    for (size_t i = 0; i < part.frames.size(); ++i)
      EXPECT_EQ(part.frames[i].header, all.frames[i].header);
  }
  EXPECT_EQ(last, all.frames.size() - 1);
  EXPECT_EQ(rank_history(read(whole.substr(0, whole.size() - 1)), "r").ending.kind,
            Ending::Kind::cut_off);
}

TEST(Frames, ARecordThatWasNeverCommittedEndsTheReadingWithAReason) {
  auto bytes = frames_of(an_eventful_rank());
  const auto first = read(bytes);
  bytes[bytes.size() - 1] = static_cast<char>(bytes.back() ^ 1);
  const auto broken = read(bytes);
  EXPECT_EQ(broken.frames.size() + 1, first.frames.size());
  EXPECT_NE(broken.tail.find("commit word"), std::string::npos);
}

TEST(Frames, WhatNoWriterWritesIsRefusedByRecordAndPath) {
  const auto refusal = [](FrameKind kind, const char* header) {
    Frames frames;
    frames.frames.push_back({kind, Json::parse(header), {}});
    try {
      rank_history(frames, "rank 3");
    } catch (const FieldError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(refusal(FrameKind::observation, R"({"name":"x"})"),
            "rank 3, record 0: no 'dtype' in {\"name\":\"x\"}");
  EXPECT_EQ(refusal(FrameKind::observation, R"({"name":"x","dtype":"int64","shape":[1,2.5]})"),
            "rank 3, record 0.shape[1]: expected a whole number, found 2.5");
  EXPECT_EQ(refusal(FrameKind::layout, R"({"buckets":{"elements":1}})"),
            "rank 3, record 0.buckets: expected a list, found {\"elements\":1}");
  EXPECT_EQ(refusal(FrameKind::layout, R"({"buckets":[{"parameters":[3],"elements":1}]})"),
            "rank 3, record 0.buckets[0].parameters[0]: expected a string, found 3");
  EXPECT_EQ(refusal(FrameKind::done, R"({"group":"world","sequence":0,"ns":"soon"})"),
            "rank 3, record 0.ns: expected a whole number, found \"soon\"");
  EXPECT_EQ(refusal(FrameKind::site, "[]"), "rank 3, record 0: no 'site' in []");
}

TEST(Frames, NamesAreReadAsOneLineAndTextsAsLegibleOnes) {
  const std::string odd = "a\n\u009b\u202e", line = "a\\x0a\\xc2\\x9b\\xe2\\x80\\xae",
                    text = "a\n\\xc2\\x9b\\xe2\\x80\\xae";
  RankHistory written;
  written.last = {1, odd};
  written.events = {{{1, odd}, Observation{odd, {odd, {}, {}}}},
                    {{1, odd}, BucketLayout{{{{odd}, 3}}}},
                    {{1, odd}, Collective{.op = odd, .group = odd, .dtype = odd, .done = true}},
                    {{1, odd}, Injection{InjectionKind::delay, 1, -1, {1, odd}, 5}},
                    {{1, odd}, LeftBehind{odd}}};
  written.ending = {Ending::Kind::threw, odd};
  RankHistory expected;
  expected.last = {1, line};
  expected.events = {
      {{1, line}, Observation{line, {line, {}, {}}}},
      {{1, line}, BucketLayout{{{{line}, 3}}}},
      {{1, line}, Collective{.op = line, .group = line, .dtype = line, .done = true}},
      {{1, line}, Injection{InjectionKind::delay, 1, -1, {1, line}, 5}},
      {{1, line}, LeftBehind{text}}};
  expected.ending = {Ending::Kind::threw, text};
  EXPECT_EQ(rank_history(read(frames_of(written)), "rank 0"), expected);
}

TEST(Frames, ACollectiveIsDoneThatWasIssuedLastWithItsNumberInItsGroup) {
  RankHistory written;
  const auto issue = [&](const char* group, int64_t sequence, bool is_done) {
    written.events.push_back(
        {{}, Collective{.op = "barrier", .group = group, .sequence = sequence, .done = is_done}});
  };
  issue("world", 0, true);
  issue("world", 1, false);
  issue("other", 0, false);
  issue("world", 0, true);
  auto expected = written;
  EXPECT_EQ(rank_history(read(frames_of(written)), "rank 0"), expected);
  auto frames = read(frames_of(written));
  for (const char* of_no_collective :
       {R"({"group":"other","sequence":7,"ns":1})", R"({"group":"third","sequence":0,"ns":1})"})
    frames.frames.push_back({FrameKind::done, Json::parse(of_no_collective), {}});
  EXPECT_EQ(rank_history(frames, "rank 0"), expected);
  frames.frames.push_back(
      {FrameKind::done, Json::parse(R"({"group":"other","sequence":0,"ns":1})"), {}});
  std::get<Collective>(expected.events[2].what).done = true;
  EXPECT_EQ(rank_history(frames, "rank 0"), expected);
}

TEST(Frames, ANameThatIsNoTextIsSpelledAndEndsNothing) {
  const auto name_read = [](const std::string& header) {
    std::string bytes(framed_size(header.size(), 0), '\0');
    auto* commit = write_frame(reinterpret_cast<std::byte*>(bytes.data()), FrameKind::left_behind,
                               header, nullptr, 0);
    std::memcpy(commit, &kCommit, sizeof(kCommit));
    const auto frames = read(bytes);
    return frames.tail.empty() ? frames.frames.front().header["what"].get<std::string>()
                               : frames.tail;
  };
  EXPECT_EQ(name_read("{\"what\":\"a\xff\xe4 \u00e4\"}"), "a\\xff\\xe4 \u00e4");
  EXPECT_EQ(name_read(R"({"what":"a\ud800 \u00e4"})"), "a\\ud800 \u00e4");
  EXPECT_EQ(name_read(R"({"what":"\udc00\ud83d\ude00\\ud800"})"), "\\udc00\U0001f600\\ud800");
  EXPECT_TRUE(name_read("{\"what\":\xff}").starts_with("record 0: its header: not JSON"));
}

TEST(Frames, APhaseThatIsTooLongToBeKeptWithEachEventIsRefused) {
  RankHistory written;
  written.last = {1, std::string(201, 'x')};
  EXPECT_THROW(rank_history(read(frames_of(written)), "rank 0"), FieldError);
}

TEST(Frames, CallSitesWithoutANumberArePassedOver) {
  Frames frames;
  const std::vector<std::byte> address(8, std::byte{1});
  frames.frames.push_back({FrameKind::site, Json::parse("[]"), address});
  frames.frames.push_back({FrameKind::site, {{"site", "x"}}, address});
  frames.frames.push_back({FrameKind::site, {{"site", 4}}, address});
  EXPECT_EQ(call_sites(frames),
            (std::map<int, std::vector<uint64_t>>{{4, {0x0101'0101'0101'0101u}}}));
}

TEST(Frames, AllReducesAreMatchedToTheBucketsInForceByTheirOrderAndSize) {
  RankHistory written;
  const auto issue = [&](const std::string& op, int64_t elements) {
    written.events.push_back({{}, Collective{.op = op, .group = "world", .elements = elements}});
  };
  issue("allreduce", 5);
  written.events.push_back(
      {{}, BucketLayout{{{{"a"}, 5}, {{"b", "c", "d", "e", "f"}, 5}, {{"g"}, 7}}}});
  issue("broadcast", 5);
  issue("allreduce", 6);
  for (const int64_t elements : {5, 5, 7, 5, 7, 5}) issue("allreduce", elements);
  written.events.push_back({{}, BucketLayout{{{{"a", "b"}, 5}}}});
  issue("allreduce", 5);
  std::vector<std::string> buckets;
  for (const auto& event : rank_history(read(frames_of(written)), "rank 0").events)
    if (const auto* issued = std::get_if<Collective>(&event.what))
      buckets.push_back(issued->bucket ? text_of(*issued->bucket) : "");
  const std::string first = "bucket 0 of 3: a", last = "bucket 2 of 3: g";
  EXPECT_EQ(buckets,
            (std::vector<std::string>{"", "", "", first, "bucket 1 of 3: b, c, d and 2 more", last,
                                      first, last, first, "bucket 0 of 1: a, b"}))
      << "none before a layout, none of another size; one that was skipped is passed over";
}

// The layout of docs/protocol.md, byte by byte.
TEST(Frames, TheLayoutIsThePublishedOne) {
  RankHistory rank;
  const auto bytes = frames_of(rank);
  const std::string header = R"({"kind":"returned","why":""})";
  std::string expected(framed_size(header.size(), 0), '\0');
  const uint32_t header_bytes = static_cast<uint32_t>(header.size()), kind = 8;
  std::memcpy(expected.data(), &header_bytes, 4);
  std::memcpy(expected.data() + 4, &kind, 4);
  std::memcpy(expected.data() + 16, header.data(), header.size());
  std::memcpy(expected.data() + expected.size() - 8, "LOCKSTEP", 8);
  EXPECT_EQ(bytes, expected);
}

TEST(Frames, HeadersAreJsonWhateverTheNamesHold) {
  const std::string odd = "a \"name\" \\ of\ntwo lines";
  EXPECT_EQ(Json::parse(header_of(odd, "float32", {2, 0})),
            (Json{{"name", odd}, {"dtype", "float32"}, {"shape", {2, 0}}}));
  EXPECT_EQ(Json::parse(header_of(Moment{3, odd})), (Json{{"step", 3}, {"phase", odd}}));
  EXPECT_EQ(Json::parse(done_header("\xff", 1, -1)),
            (Json{{"group", "\xef\xbf\xbd"}, {"sequence", 1}, {"ns", -1}}));
}

}  // namespace
}  // namespace lockstep
