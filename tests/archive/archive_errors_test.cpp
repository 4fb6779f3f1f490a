#include "harness/archive/archive.h"
#include "tests/campaign/toys.h"

#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <sys/resource.h>

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using toys::Folder;

Case case_to_archive() {
  return toys::job_of(toys::holds_unless_one(), {5}).cases[0];
}

// No file may grow beyond `bytes` while it lives.
class SmallFiles {
 public:
  explicit SmallFiles(rlim_t bytes) : before_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &limit_);
    const rlimit small{bytes, limit_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &small);
  }
  ~SmallFiles() {
    ::setrlimit(RLIMIT_FSIZE, &limit_);
    std::signal(SIGXFSZ, before_);
  }
  SmallFiles(const SmallFiles&) = delete;
  SmallFiles& operator=(const SmallFiles&) = delete;

 private:
  sighandler_t before_;
  rlimit limit_{};
};

TEST(Archive, WhatCannotBeSavedCostsTheFileAndIsSaid) {
  const Folder folder;
  Archive archive(folder.path());
  std::ofstream(folder.path() / "failures") << "in the way";
  EXPECT_TRUE(archive.save_failure(case_to_archive(), case_file({case_to_archive()})).empty());
  EXPECT_NE(archive.loss().find("failures"), std::string::npos) << archive.loss();
  archive.write("run.json", "{}");
  EXPECT_TRUE(fs::exists(archive.folder() / "run.json"));
}

TEST(Archive, NoLineComesBehindOneThatIsTorn) {
  const Folder folder;
  Archive archive(folder.path());
  archive.append({{"event", "before"}});
  {
    const SmallFiles small(100);
    archive.append({{"event", std::string(200, 'x')}});
  }
  EXPECT_NE(archive.loss().find("events.jsonl: File too large"), std::string::npos)
      << archive.loss();
  archive.append({{"event", "behind"}});
  std::ifstream in(archive.folder() / "events.jsonl");
  std::string first, torn, more;
  EXPECT_TRUE(std::getline(in, first) && std::getline(in, torn));
  EXPECT_EQ(Json::parse(first)["event"], "before");
  EXPECT_EQ(first.size() + 1 + torn.size(), 100u);
  EXPECT_FALSE(std::getline(in, more));
}

TEST(Archive, AFileThatCannotBeFinishedLeavesNothingBehind) {
  const Folder folder;
  Archive archive(folder.path());
  {
    const SmallFiles small(100);
    archive.write("run.json", std::string(200, 'x'));
  }
  EXPECT_FALSE(archive.loss().empty());
  for (const auto& entry : fs::directory_iterator(archive.folder()))
    EXPECT_EQ(entry.path().filename(), "events.jsonl");
}

}  // namespace
}  // namespace lockstep
