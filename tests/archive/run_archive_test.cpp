#include "harness/archive/run_archive.h"

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

TEST(RunArchive, WhatCannotBeSavedCostsTheFileAndIsSaid) {
  const Folder folder;
  Archive archive(folder.path());
  RunArchive kept(archive);
  std::ofstream(folder.path() / "failures") << "in the way";
  EXPECT_TRUE(kept.save_failure(case_to_archive(), case_file({case_to_archive()})).empty());
  EXPECT_NE(kept.loss().find("failures"), std::string::npos) << kept.loss();
  kept.write("run.json", "{}");
  EXPECT_TRUE(fs::exists(archive.folder() / "run.json"));
}

TEST(RunArchive, NoLineComesBehindOneThatIsTorn) {
  const Folder folder;
  Archive archive(folder.path());
  RunArchive kept(archive);
  kept.append({{"event", "before"}});
  {
    const SmallFiles small(100);
    kept.append({{"event", std::string(200, 'x')}});
  }
  EXPECT_NE(kept.loss().find("events.jsonl: File too large"), std::string::npos) << kept.loss();
  kept.append({{"event", "behind"}});
  std::ifstream in(archive.folder() / "events.jsonl");
  std::string first, torn, more;
  EXPECT_TRUE(std::getline(in, first) && std::getline(in, torn));
  EXPECT_EQ(Json::parse(first)["event"], "before");
  EXPECT_EQ(first.size() + 1 + torn.size(), 100u);
  EXPECT_FALSE(std::getline(in, more));
}

TEST(RunArchive, AFileThatCannotBeFinishedLeavesNothingBehind) {
  const Folder folder;
  Archive archive(folder.path());
  RunArchive kept(archive);
  {
    const SmallFiles small(100);
    kept.write("run.json", std::string(200, 'x'));
  }
  EXPECT_FALSE(kept.loss().empty());
  for (const auto& entry : fs::directory_iterator(archive.folder()))
    EXPECT_EQ(entry.path().filename(), "events.jsonl");
}

}  // namespace
}  // namespace lockstep
