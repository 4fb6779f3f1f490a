#include "cli/launch/program_ranks.h"

#include "cli/launch/rank_failure.h"

#include <gtest/gtest.h>

#include <fstream>
#include <unistd.h>

namespace lockstep::cli {
namespace {

std::string value_of(const std::string& name, const ProgramRanks& ranks, int rank) {
  for (const auto& [variable, value] : variables_of(ranks, rank))
    if (variable == name) return value;
  return "not set";
}

TEST(ProgramRanks, EachHasItsPlaceAndAllHaveOneStore) {
  const ProgramRanks ranks{
      .command = {"true"}, .count = 3, .secret = "s", .folder = "/f", .store_port = 4711};
  EXPECT_EQ(value_of("RANK", ranks, 2), "2");
  EXPECT_EQ(value_of("LOCAL_RANK", ranks, 2), "2");
  EXPECT_EQ(value_of("WORLD_SIZE", ranks, 0), "3");
  EXPECT_EQ(value_of("LOCAL_WORLD_SIZE", ranks, 0), "3");
  EXPECT_EQ(value_of("GROUP_RANK", ranks, 0), "0");
  EXPECT_EQ(value_of("GROUP_WORLD_SIZE", ranks, 0), "1");
  EXPECT_EQ(value_of("MASTER_ADDR", ranks, 0), "127.0.0.1");
  EXPECT_EQ(value_of("MASTER_PORT", ranks, 0), "4711");
  EXPECT_EQ(value_of("TORCHELASTIC_USE_AGENT_STORE", ranks, 0), "True");
  EXPECT_EQ(value_of("TORCHELASTIC_ERROR_FILE", ranks, 1), "/f/rank1.json");
  EXPECT_EQ(value_of("LOCKSTEP_SECRET", ranks, 2), "s");
}

TEST(ProgramRanks, RecordWhereTheLauncherSays) {
  const ProgramRanks silent{.command = {"true"}, .count = 2};
  EXPECT_EQ(value_of("LOCKSTEP_RECORD", silent, 1), "not set");
  const ProgramRanks recorded{.command = {"true"}, .count = 2, .record = "/some/where"};
  EXPECT_EQ(value_of("LOCKSTEP_RECORD", recorded, 1), "/some/where");
}

TEST(ProgramRanks, ALineOfAReportHasThePrefixOfItsRank) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("reports." + std::to_string(::getpid()));
  std::filesystem::create_directory(folder);
  const ProgramRanks ranks{.command = {"true"}, .count = 2, .folder = folder};
  std::ofstream(error_file_of(ranks, 1)) << R"({"message": "no room:\n  on /data"})";
  GroupReport report;
  report.ends = {{ChildEnd::Kind::exited, 0}, {ChildEnd::Kind::exited, 3}};
  EXPECT_EQ(failure_text(ranks, report, 1),
            "rank 1 failed first, with exit code 3: no room:\n[1]   on /data");
  std::filesystem::remove_all(folder);
}

class ErrorFiles : public ::testing::Test {
 protected:
  ~ErrorFiles() override { std::filesystem::remove(file_); }
  std::optional<ReportedError> read(const std::string& text) {
    std::ofstream(file_) << text;
    return error_reported_in(file_);
  }
  const std::filesystem::path file_ =
      std::filesystem::temp_directory_path() / ("error_files." + std::to_string(::getpid()));
};

TEST_F(ErrorFiles, OfPyTorchAndOfOursAreRead) {
  const auto pytorchs = read(R"({"message": {"message": "no", "extraInfo": {"timestamp": "1"}}})");
  EXPECT_EQ(pytorchs->sentence, "no");
  EXPECT_FALSE(pytorchs->time_ns);
  const auto ours =
      read(R"({"message": {"message": "no", "extraInfo": {"timestamp": "1", "time_ns": "12"}}})");
  EXPECT_EQ(ours->time_ns, 12);
  EXPECT_EQ(read(R"({"message": "no"})")->sentence, "no");
}

TEST_F(ErrorFiles, ThatSayNothingAreNothing) {
  for (const char* text :
       {"", "{", "[]", "{}", R"({"message": 1})", R"({"message": {"message": 1}})"})
    EXPECT_FALSE(read(text)) << text;
  EXPECT_FALSE(error_reported_in("/there/is/none"));
}

}  // namespace
}  // namespace lockstep::cli
