#include "harness/recorded/recorded_run.h"

#include "harness/base/read_file.h"
#include "harness/history/history.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>

namespace lockstep::recorded {
namespace {

namespace fs = std::filesystem;

std::string vector_bytes() {
  return read_file(fs::path(LOCKSTEP_VECTORS) / "rank1.history");
}

std::string refusal_of(const auto& read) {
  try {
    read();
  } catch (const FieldError& error) {
    return error.what();
  }
  return "it was read";
}

class RecordedRun : public testing::Test {
 protected:
  RecordedRun() {
    std::string name = (fs::temp_directory_path() / "lockstep-judge-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~RecordedRun() override { fs::remove_all(folder_); }

  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
  }
  std::string refusal() const {
    return refusal_of([this] { read_recorded_run(folder_); });
  }

  fs::path folder_;
};

// A history of rank 0 in a world of two.
std::string bytes_with(const std::vector<std::tuple<uint32_t, std::string, std::string>>& records,
                       const std::string& begin = R"({"protocol":1,"rank":0,"world":2})") {
  std::string out;
  uint64_t number = 0;
  const auto add = [&](uint32_t kind, const std::string& header, const std::string& payload) {
    const auto from = out.size();
    out.resize(from + framed_size(header.size(), payload.size()));
    auto* commit =
        write_frame(reinterpret_cast<std::byte*>(out.data()) + from, static_cast<FrameKind>(kind),
                    header, payload.data(), payload.size());
    const uint64_t word = kCommit ^ number++;
    std::memcpy(commit, &word, sizeof(word));
  };
  add(1, begin, "");
  for (const auto& [kind, header, payload] : records) add(kind, header, payload);
  return out;
}

TEST(RecordedRank, IsWhatTheRecorderInPythonWrites) {
  const auto rank = read_rank(vector_bytes(), "rank1.history");
  EXPECT_EQ(rank.number, 1);
  EXPECT_EQ(rank.world, 2);
  EXPECT_EQ(rank.program, "train.py");
  EXPECT_EQ(rank.torch, "2.11.0");
  EXPECT_EQ(rank.tail, "");
  EXPECT_EQ(rank.history.ending.kind, Ending::Kind::returned);
  ASSERT_EQ(rank.history.events.size(), 1u);
  const auto& collective = std::get<Collective>(rank.history.events.front().what);
  EXPECT_EQ(collective.op, "allreduce");
  EXPECT_TRUE(collective.done);
  ASSERT_EQ(rank.records.size(), 3u);
  const auto& digests = std::get<Digests>(rank.records[0].what);
  EXPECT_EQ(rank.records[0].at, (Moment{0, "update"}));
  EXPECT_EQ(digests.list->role, "parameters");
  EXPECT_EQ(digests.list->tensors[0], (TensorList::Entry{"w", "float32", {2, 3}}));
  EXPECT_EQ(digests.values[0].bits, 0x0706050403020100u);
  EXPECT_EQ(digests.values[1].bits, 0x1716151413121110u);
  EXPECT_EQ(std::get<Fact>(rank.records[1].what).text("kind"), "SGD");
  EXPECT_EQ(std::get<Drawn>(rank.records[2].what).indices, (std::vector<int64_t>{3, 9}));
}

TEST(RecordedRank, ThatWasKilledLeavesTheRecordsBeforeIt) {
  const auto whole = vector_bytes();
  const auto rank = read_rank(whole.substr(0, whole.size() - 30), "rank1.history");
  EXPECT_EQ(rank.records.size(), 3u);
  EXPECT_EQ(rank.history.ending.kind, Ending::Kind::cut_off);
  EXPECT_NE(rank.tail, "");
}

TEST(RecordedRank, IsRefusedWithASentenceWhereNoRecorderWroteIt) {
  const auto refused = [](const std::string& bytes) {
    return refusal_of([&] { read_rank(bytes, "f"); });
  };
  EXPECT_EQ(refused(""), "f: is empty");
  EXPECT_EQ(refused("no history at all, but long enough"),
            "f: is no history: record 0: it says it is longer than what is left");
  EXPECT_EQ(refused(bytes_with({{12, R"({"list":0})", ""}})),
            "f, record 1: no record before it describes its tensors");
  const std::string list =
      R"({"list":0,"of":"m","role":"parameters","tensors":[["w","float32",[1]]]})";
  EXPECT_EQ(refused(bytes_with({{11, list, ""}, {12, R"({"list":0})", std::string(8, 'x')}})),
            "f, record 2: its payload has 8 bytes for 1 tensors");
  EXPECT_EQ(refused(bytes_with({{11, R"({"list":-1,"of":"m","role":"r","tensors":[]})", ""}})),
            "f, record 1: 'list' is -1; expected 0 to 1048576");
  EXPECT_EQ(
      refused(bytes_with({{11, R"({"list":0,"of":"m","role":"r","tensors":[["w",1,[]]]})", ""}})),
      "f, record 1: expected [name, dtype, shape], not [\"w\",1,[]]");
  EXPECT_EQ(refused(bytes_with({{13, R"({"name":"x"})", ""}})), "f, record 1: no object 'values'");
  EXPECT_EQ(refused(bytes_with(
                {{13, R"({"name":")" + std::string(1025, 'x') + R"(","values":{}})", ""}})),
            "f, record 1: 'name' is too long");
  EXPECT_EQ(refused(bytes_with({{14, R"({"name":"x","from":-1,"ns":4})", ""}})),
            "f, record 1: 'from' is -1; expected 0 to 4611686018427387904");
  EXPECT_EQ(refused(bytes_with({{14, R"({"name":"x","from":5,"ns":4})", ""}})),
            "f, record 1: 'ns' is 4; expected 5 to 4611686018427387904");
  EXPECT_EQ(refused(bytes_with({{99, "{}", ""}})), "f, record 1: unknown kind 99");
  EXPECT_EQ(refused(bytes_with({{2, "[]", ""}})), "f, record 1: its header is no object");
  EXPECT_EQ(refused(bytes_with({}, "[]")), "f, record 0: is not the begin of a history");
  const std::string begin = R"({"protocol":1,"rank":0,"world":2})",
                    ending = R"({"kind":"returned","why":""})";
  EXPECT_EQ(refused(bytes_with({{1, begin, ""}})), "f, record 1: a history begins once");
  EXPECT_EQ(refused(bytes_with({{8, ending, ""}, {13, R"({"name":"x","values":{}})", ""}})),
            "f, record 2: the record before it is the ending");
}

// Two float32 of one tensor, with a digest of it: all of them, or the first.
TEST(RecordedRank, HasTheElementsOfATensorOrASample) {
  const std::string list = R"({"list":0,"of":"m","role":"r","tensors":[["w","float32",[2]]]})";
  const Digest digest{.bits = 7, .norm = 5};
  const float both[]{3, 4};
  const std::string of_digest(reinterpret_cast<const char*>(&digest), sizeof(digest));
  const std::string of_both(reinterpret_cast<const char*>(both), sizeof(both));
  const auto recorded = [&](const char* header, const std::string& elements) {
    return bytes_with({{11, list, ""}, {12, R"({"list":0})", of_digest}, {15, header, elements}});
  };
  for (const size_t count : {1UL, 2UL}) {
    const auto* header = count == 1 ? R"({"list":0,"elements":1})" : R"({"list":0})";
    const auto rank = read_rank(recorded(header, of_both.substr(0, 4 * count)), "f");
    const auto& is = std::get<Digests>(rank.records.back().what);
    EXPECT_EQ(is.values.front().bits, digest.bits);
    EXPECT_EQ(is.values.front().norm, digest.norm);
    EXPECT_EQ(as_doubles(is.elements.front()), std::vector<double>(both, both + count));
  }
  EXPECT_EQ(refusal_of([&] { read_rank(recorded(R"({"list":0})", of_both.substr(4)), "f"); }),
            "f, record 3: its payload is shorter than its tensors");
}

TEST(RecordedRank, IsOneOfItsWorld) {
  for (const int rank : {1, 2, -1}) {
    const auto begin = R"({"protocol":1,"rank":)" + std::to_string(rank) + R"(,"world":2})";
    const auto refusal = refusal_of([&] { read_rank(bytes_with({}, begin), "f"); });
    EXPECT_EQ(refusal == "it was read", rank == 1) << refusal;
  }
}

TEST(RecordedRank, HasFactsWhoseTextsAreOneLine) {
  const auto rank = read_rank(
      bytes_with(
          {{13, R"({"name":"x\n","values":{"a\n":[{"b\u009b":"c\u202e"}],"d":"\u0007"}})", ""}}),
      "f");
  const auto& fact = std::get<Fact>(rank.records.front().what);
  EXPECT_EQ(fact.name, "x\\x0a");
  EXPECT_EQ(fact.values,
            Json::parse(R"({"a\\x0a":[{"b\\xc2\\x9b":"c\\xe2\\x80\\xae"}],"d":"\\x07"})"));
}

TEST(RecordedRank, IsRefusedWhereItsFactsWouldTakeAllMemory) {
  std::string lists = "[0";
  for (int i = 0; i < 1'000'000; ++i) lists += ",[]";
  const std::string header = R"({"name":"x","values":{"x":)" + lists + "]}}";
  EXPECT_EQ(
      refusal_of([&] {
        read_rank(
            bytes_with({{13, header, ""}, {13, header, ""}, {13, header, ""}, {13, header, ""}}),
            "f");
      }),
      "f, record 4: its facts hold more than 4,000,000 values");
}

TEST_F(RecordedRun, NamesTheRankThatLeftNoFile) {
  write("rank1.history", vector_bytes());
  const auto run = read_recorded_run(folder_);
  ASSERT_EQ(run.ranks.size(), 2u);
  EXPECT_FALSE(run.ranks[0].is_there);
  EXPECT_TRUE(run.ranks[1].is_there);
  EXPECT_EQ(run.ranks[0].history.ending.why, "it left no file");
}

TEST_F(RecordedRun, IsRefusedWhereFilesDoNotBelongTogether) {
  EXPECT_NE(refusal().find("holds no rank0.history: nothing was recorded here"), std::string::npos);
  write("rank0.history", vector_bytes());
  EXPECT_NE(refusal().find("rank0.history: is the history of rank 1"), std::string::npos);
  write("rank0.history", bytes_with({}));
  auto of_three = bytes_with({});
  of_three.replace(of_three.find("\"world\":2"), 9, "\"world\":3");
  of_three.replace(of_three.find("\"rank\":0"), 8, "\"rank\":2");
  write("rank2.history", of_three);
  EXPECT_NE(refusal().find("rank2.history: is of a world of 3, and rank0.history of a world of 2"),
            std::string::npos);
}

TEST_F(RecordedRun, FollowsNoLinkAndOpensNoPipe) {
  fs::create_symlink("/etc/passwd", folder_ / "rank0.history");
  EXPECT_NE(refusal().find("rank0.history: is a link; expected a regular file"), std::string::npos);
  fs::remove(folder_ / "rank0.history");
  fs::create_directory(folder_ / "rank0.history");
  EXPECT_NE(refusal().find("it is a folder; expected a regular file"), std::string::npos);
}

TEST_F(RecordedRun, LooksAtNoOtherFile) {
  for (const char* name : {"rank01.history", "rank-1.history", "rank2000000.history",
                           "rank.history", "rank1.history.bak", "run.json"})
    write(name, "not looked at");
  EXPECT_NE(refusal().find("nothing was recorded here"), std::string::npos);
}

TEST_F(RecordedRun, IsRefusedWhereItIsTooLarge) {
  write("rank0.history", "");
  fs::resize_file(folder_ / "rank0.history", static_cast<uintmax_t>(kRunBytesMost) + 1);
  EXPECT_NE(refusal().find("at most 536,870,912 are read"), std::string::npos);
}

// The bytes of a stranger: read, or refused with a sentence that begins with the file.
TEST(RecordedRank, OfAnyBytesIsReadOrRefusedByItsPlace) {
  const auto whole = vector_bytes();
  std::mt19937_64 random(1);
  int read = 0, refused = 0;
  for (int round = 0; round < 20000; ++round) {
    auto bytes = whole;
    for (auto changes = 1 + random() % 4; changes > 0; --changes)
      bytes[random() % bytes.size()] = static_cast<char>(random() % 3 == 0 ? '9' : random());
    if (random() % 8 == 0) bytes.resize(random() % bytes.size());
    const auto text = refusal_of([&] { read_rank(bytes, "f"); });
    ++(text == "it was read" ? read : refused);
    if (text != "it was read") {
      EXPECT_TRUE(text.starts_with("f: ") || text.starts_with("f, record ")) << text;
    }
  }
  EXPECT_GT(read, 1000);
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace lockstep::recorded
