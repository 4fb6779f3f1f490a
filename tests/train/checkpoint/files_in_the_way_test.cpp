// Checks what saving does where something else lies where its file, or the half of it, belongs.
#include "tests/train/checkpoint/training.h"
#include "train/checkpoint/files.h"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryFolder;

class FilesInTheWay : public ::testing::Test {
 protected:
  std::string outcome_of_saving() {
    try {
      replace_file(
          folder_ / "a.pt", [](const Write& write) { write("new", 3); }, 1, false);
    } catch (const std::runtime_error& error) {
      std::string sentence = error.what();
      const std::string path = folder_ / "";
      for (std::size_t at; (at = sentence.find(path)) != std::string::npos;)
        sentence.erase(at, path.size());
      return sentence;
    }
    return "saved " + text_in("a.pt");
  }

  std::string text_in(const std::string& name) {
    std::ifstream file(folder_ / name);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  TemporaryFolder folder_;
};

TEST_F(FilesInTheWay, ALinkIsNotFollowed) {
  std::ofstream(folder_ / "victim") << "dear";
  fs::create_symlink(folder_ / "victim", folder_ / "a.pt.partial");
  EXPECT_EQ(outcome_of_saving(), "cannot write a.pt.partial: it is no regular file");
  EXPECT_EQ(text_in("victim"), "dear");
  EXPECT_FALSE(fs::exists(folder_ / "a.pt"));
}

TEST_F(FilesInTheWay, ASecondNameOfAFileIsNotWrittenTo) {
  std::ofstream(folder_ / "victim") << "dear";
  fs::create_hard_link(folder_ / "victim", folder_ / "a.pt.partial");
  EXPECT_EQ(outcome_of_saving(), "saved new");
  EXPECT_EQ(text_in("victim"), "dear");
}

TEST_F(FilesInTheWay, APipeIsNotWaitedFor) {
  ASSERT_EQ(::mkfifo((folder_ / "a.pt.partial").c_str(), 0600), 0);
  EXPECT_EQ(outcome_of_saving(), "cannot write a.pt.partial: it is no regular file");
}

TEST(Files, AreWrittenByteByByteWhereTheyComeSo) {
  const TemporaryFolder folder;
  const auto produce = [](const Write& write) {
    for (const char* each : {"n", "e", "w"}) write(each, 1);
  };
  replace_file(folder / "a.pt", produce, 1, false);
  EXPECT_EQ(fs::file_size(folder / "a.pt"), 3U);
}

TEST_F(FilesInTheWay, WhatAKilledProcessLeftIsReplacedUnlessItIsStillWritten) {
  std::ofstream(folder_ / "a.pt.partial") << "half a checkp";
  const int other = ::open((folder_ / "a.pt.partial").c_str(), O_WRONLY | O_CLOEXEC);
  ASSERT_EQ(::flock(other, LOCK_EX), 0);
  EXPECT_EQ(outcome_of_saving(),
            "cannot write a.pt.partial, which another process writes: Resource temporarily "
            "unavailable");
  ::close(other);
  EXPECT_EQ(outcome_of_saving(), "saved new");
  EXPECT_FALSE(fs::exists(folder_ / "a.pt.partial"));
}

}  // namespace
}  // namespace lockstep
