#include "harness/archive/kept_histories.h"

#include "tests/campaign/bench.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using toys::Bench;
using toys::Folder;
using toys::holds_unless_one;
using toys::job_of;
using toys::recorded;
using toys::sees_its_value;
using toys::value_of;

KeptHistory some_history() {
  const auto c = job_of(holds_unless_one(), {5}).cases[0];
  return {.c = c, .number = 3, .verdict = Verdict::Kind::fail, .history = recorded(c, 5)};
}

TEST(KeptHistories, AreReadBackAsTheyWere) {
  const Folder folder;
  Archive archive(folder.path());
  const auto kept = some_history();
  archive.keep(kept);
  const auto all = read_histories(archive.folder() / "histories");
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].c, kept.c);
  EXPECT_EQ(all[0].setting, kept.setting);
  EXPECT_EQ(all[0].number, 3);
  EXPECT_EQ(all[0].verdict, Verdict::Kind::fail);
  EXPECT_EQ(all[0].history, kept.history);
}

TEST(KeptHistories, OnesThatAreTooLargeAreLeftOut) {
  auto kept = some_history();
  auto ranks = kept.history.ranks();
  ranks[0].events.push_back({{0, "look"},
                             Observation{"large",
                                         {"uint8",
                                          {int64_t{kPassingHistoryBytesMost}},
                                          std::vector<std::byte>(kPassingHistoryBytesMost)}}});
  kept.history = History(ranks);
  EXPECT_FALSE(files_of(kept).empty()) << "of a failure more is kept";
  kept.verdict = Verdict::Kind::pass;
  EXPECT_TRUE(files_of(kept).empty());
}

TEST(KeptHistories, AreNoMoreThanTheMostOfARun) {
  const Folder folder;
  Archive archive(folder.path());
  for (size_t number = 0; number < kHistoriesMost + 5; ++number) {
    auto kept = some_history();
    kept.c = job_of(holds_unless_one(), {static_cast<int64_t>(number)}).cases[0];
    archive.keep(kept);
  }
  EXPECT_EQ(read_histories(archive.folder() / "histories").size(), kHistoriesMost);
}

TEST(KeptHistories, AreOfOnePassOfEachFamilyWhateverTheNumberOfLanes) {
  for (const int lanes : {1, 4}) {
    Bench bench;
    bench.run(
        {job_of(holds_unless_one("toys.a"), {2, 3, 4}), job_of(holds_unless_one("toys.b"), {5}),
         job_of(holds_unless_one("other.c"), {6, 7})},
        sees_its_value, {.slots = 2 * lanes}, lanes);
    const auto all = read_histories(bench.archive.folder() / "histories");
    ASSERT_EQ(all.size(), 2u) << lanes;
    EXPECT_EQ(value_of(all[0].c), 6);
    EXPECT_EQ(value_of(all[1].c), 2);
    EXPECT_EQ(all[1].verdict, Verdict::Kind::pass);
    EXPECT_EQ(all[1].number, 1);
  }
}

TEST(KeptHistories, AreOfTheFailingCaseThatAResultStandsOn) {
  Bench bench;
  const auto run = bench.run({job_of(holds_unless_one(), {2, 1, 4})}, sees_its_value);
  const auto all = read_histories(bench.archive.folder() / "histories");
  const auto failing = std::find_if(
      all.begin(), all.end(), [](const auto& kept) { return kept.verdict == Verdict::Kind::fail; });
  ASSERT_NE(failing, all.end());
  EXPECT_EQ(failing->c, run.results.at(0).failure->c);
}

TEST(KeptHistories, ThatNoRunWroteAreRefusedByTheirFile) {
  const Folder folder;
  EXPECT_TRUE(read_histories(folder.path() / "none").empty());
  Archive archive(folder.path());
  archive.keep(some_history());
  const auto histories = archive.folder() / "histories";
  const auto about = fs::directory_iterator(histories)->path() / "case.json";
  std::ofstream(about) << R"({"scenario": "a", "verdict": "odd"})";
  try {
    read_histories(histories);
    FAIL() << "it was read";
  } catch (const FieldError& error) {
    EXPECT_NE(std::string(error.what()).find("case.json"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace lockstep
