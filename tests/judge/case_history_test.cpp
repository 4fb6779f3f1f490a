// A case that a program which is not ours has run.
#include "harness/recorded/case_history.h"

#include "harness/history/frames.h"
#include "harness/history/history_file.h"

#include <gtest/gtest.h>

#include <fstream>
#include <unistd.h>

namespace lockstep::recorded {
namespace {

namespace fs = std::filesystem;

const Case kCase{"toys.shapes", {{"world", {{"size", 2}}}}};

RankHistory eventful(int rank) {
  RankHistory history;
  const Moment at{1, "look"};
  history.events.push_back({at, Observation{"n", int64_values({1, rank})}});
  history.events.push_back({at, Collective{.op = "allreduce",
                                           .group = "world",
                                           .dtype = "int64",
                                           .sequence = 0,
                                           .elements = 2,
                                           .done = true,
                                           .times = {5, 9}}});
  history.ending = {Ending::Kind::returned, "", {11}};
  history.last = at;
  return history;
}

std::string file_of(int rank, int world = 2, const std::string& hash = hash_of(kCase)) {
  return history_file(eventful(rank), {.rank = rank, .world = world, .case_hash = hash});
}

std::string refusal(const std::string& bytes, int rank = 0) {
  try {
    read_case_rank(bytes, rank, kCase, "f");
  } catch (const FieldError& error) {
    return error.what();
  }
  return "it was read";
}

TEST(AHistoryOfACase, IsReadAsItWasWritten) {
  const auto read = read_case_rank(file_of(1), 1, kCase, "f");
  EXPECT_EQ(read, eventful(1));
  EXPECT_EQ(std::get<Collective>(read.events[1].what).times.done_ns, 9);
  EXPECT_EQ(read.ending.at.ns, 11);
}

TEST(AHistoryOfACase, MayLeaveTheHashOut) {
  auto bytes = file_of(0);
  const std::string field = ",\"case\":\"" + hash_of(kCase) + "\"";
  const auto at = bytes.find(field);
  ASSERT_NE(at, std::string::npos);
  bytes.replace(at, field.size(), std::string(field.size(), ' '));
  EXPECT_EQ(refusal(bytes), "it was read");
}

TEST(AHistoryOfACase, IsRefusedWhereItIsOfSomethingElse) {
  EXPECT_EQ(refusal(file_of(0, 3)), "f, record 0: its 'world' is 3; expected 2");
  EXPECT_EQ(refusal(file_of(0), 1), "f, record 0: its 'rank' is 0; expected 1");
  EXPECT_EQ(refusal(file_of(0, 2, "0")),
            "f, record 0: its 'case' is \"0\"; expected \"" + hash_of(kCase) + "\"");
  EXPECT_EQ(refusal(""), "f: is empty");
  EXPECT_EQ(refusal(frames_of(eventful(0))), "f, record 0: is not the begin of a history");
}

TEST(AHistoryOfACase, IsRefusedWhereATensorHasOtherBytesThanItsShape) {
  auto bytes = file_of(0);
  const auto at = bytes.find("\"shape\":[2]");
  ASSERT_NE(at, std::string::npos);
  auto larger = bytes;
  larger[at + 9] = '3';
  EXPECT_EQ(refusal(larger), "f, record 2: its payload has 16 bytes; int64[3] has 24");
  auto unknown = bytes;
  unknown.replace(unknown.find("\"dtype\":\"int64\""), 15, "\"dtype\":\"int63\"");
  EXPECT_EQ(refusal(unknown), "f, record 2: no tensor is int63[2]");
  auto list = bytes;
  const auto begin = list.rfind('{', at), end = list.find('}', at);
  list.replace(begin, end + 1 - begin, "[" + std::string(end - 1 - begin, ' ') + "]");
  EXPECT_EQ(refusal(list), "f, record 2: no 'dtype'");
}

TEST(AHistoryOfACase, EndsWhereARankWasKilledOrLeftNoFile) {
  std::string name = (fs::temp_directory_path() / "lockstep-case-XXXXXX").string();
  const fs::path folder = ::mkdtemp(name.data());
  const auto bytes = file_of(0);
  std::ofstream(folder / "rank0.history", std::ios::binary) << bytes.substr(0, bytes.size() - 9);
  const auto history = read_case_history(folder, kCase);
  ASSERT_EQ(history.size(), 2);
  EXPECT_EQ(history.ranks()[0].ending.kind, Ending::Kind::cut_off);
  EXPECT_EQ(history.ranks()[0].events.size(), 2u);
  EXPECT_EQ(history.ranks()[1].ending.why, "it left no file");
  std::ofstream(folder / "rank2.history", std::ios::binary) << bytes;
  EXPECT_THROW(read_case_history(folder, kCase), FieldError);
  fs::remove_all(folder);
}

}  // namespace
}  // namespace lockstep::recorded
