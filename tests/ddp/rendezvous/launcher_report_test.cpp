#include "ddp/launcher_report.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

namespace lockstep {
namespace {

class LauncherReport : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        std::filesystem::temp_directory_path() / ("launcher_report." + std::to_string(getpid()));
    std::filesystem::create_directory(folder_);
    ::setenv("TORCHELASTIC_ERROR_FILE", (folder_ / "error.json").c_str(), 1);
  }
  void TearDown() override {
    ::unsetenv("TORCHELASTIC_ERROR_FILE");
    std::filesystem::remove_all(folder_);
  }

  std::string written() const {
    std::ifstream file(folder_ / "error.json");
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }

  std::filesystem::path folder_;
};

TEST_F(LauncherReport, IsTheFileThatTorchrunReads) {
  report_to_launcher("it \"broke\"\nin C:\\x\x01");
  const std::string text = R"("it \"broke\"\u000ain C:\\x\u0001")";
  const std::string start = R"({"message": {"message": )" + text +
                            R"(, "extraInfo": {"py_callstack": )" + text + R"(, "timestamp": ")";
  EXPECT_EQ(written().substr(0, start.size()), start);
  EXPECT_EQ(written().substr(written().size() - 4), "\"}}}");
}

// The launcher may run as another user than its ranks.
TEST_F(LauncherReport, MayBeReadByAllAndWrittenByItsUserAlone) {
  const mode_t before = ::umask(0);
  report_to_launcher("it broke");
  ::umask(before);
  EXPECT_EQ(std::filesystem::status(folder_ / "error.json").permissions(),
            static_cast<std::filesystem::perms>(0644));
}

// Python's json ends the agent at a byte that is none.
TEST_F(LauncherReport, IsInUtf8WhateverTheSentenceQuotes) {
  const std::string right = "\u00e9 \u20ac \U0001f600 \U0010ffff";
  report_to_launcher(right + "|\xff|\xe2\x82|\xc0\xaf|\xed\xa0\x80|\xf4\x90\x80\x80|\xe9");
  EXPECT_NE(written().find("\"" + right + "|?|\?\?|\?\?|\?\?\?|\?\?\?\?|?\""), std::string::npos)
      << written();
}

TEST_F(LauncherReport, KeepsTheFirstSentenceAndLeavesNothingElse) {
  report_to_launcher("first");
  report_to_launcher("second");
  EXPECT_NE(written().find("first"), std::string::npos);
  EXPECT_EQ(written().find("second"), std::string::npos);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
}

// Unwinding destroys an instance, which reports, before main can.
TEST_F(LauncherReport, OfTheProgramReplacesLocksteps) {
  report_for_the_program("rank 1 left");
  EXPECT_NE(written().find("\"rank 1 left\""), std::string::npos) << written();
  report_to_launcher("the disk is full");
  const std::string text = written();
  EXPECT_EQ(text.find("rank 1 left"), std::string::npos) << text;
  for (const char* later : {"later", "much later"}) {
    report_for_the_program(later);
    report_to_launcher(later);
    EXPECT_EQ(written(), text);
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
}

// torchrun's root cause is the rank with the earliest time, and peers fail soon after.
TEST_F(LauncherReport, KeepsTheTimeOfTheFailureThatItReplaces) {
  std::ofstream(folder_ / "error.json")
      << R"({"message": {"message": "x", "extraInfo": {"py_callstack": "x", "timestamp": "42", )"
      << R"("time_ns": "43", "reported_by": "lockstep"}}})";
  report_to_launcher("why");
  EXPECT_NE(written().find(R"("timestamp": "42", "time_ns": "43"})"), std::string::npos)
      << written();
}

// Another library's word, or PyTorch's in the same process.
TEST_F(LauncherReport, LeavesWhatOthersWrote) {
  std::ofstream(folder_ / "error.json") << R"({"message": "theirs"})";
  report_to_launcher("ours");
  EXPECT_EQ(written(), R"({"message": "theirs"})");
}

TEST_F(LauncherReport, IsNothingWithoutALauncherOrAFolder) {
  ::setenv("TORCHELASTIC_ERROR_FILE", (folder_ / "gone" / "error.json").c_str(), 1);
  report_to_launcher("nobody reads this");
  ::unsetenv("TORCHELASTIC_ERROR_FILE");
  report_to_launcher("nobody reads this");
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

}  // namespace
}  // namespace lockstep
