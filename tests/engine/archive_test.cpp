#include "harness/engine/archive.h"

#include "tests/engine/toys.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using toys::Folder;

Case some_case() {
  return toys::job_of(toys::holds_unless_one(), {5}).cases.front();
}

TEST(Archive, TheLinkPointsToTheNewestRun) {
  const Folder folder;
  const Archive first(folder.path() / "out");
  const Archive second(folder.path() / "out");
  EXPECT_NE(first.folder(), second.folder());
  const auto link = folder.path() / "out/runs/latest";
  EXPECT_TRUE(fs::read_symlink(link).is_relative());
  EXPECT_TRUE(fs::equivalent(link, second.folder()));
}

TEST(Archive, FoldersOfRunsArePrivate) {
  const Folder folder;
  const Archive archive(folder.path() / "out");
  struct stat status {};
  ASSERT_EQ(::stat(archive.folder().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u);
}

TEST(Archive, ALineIsInTheFileWhenTheCallbackReturns) {
  const Folder folder;
  Archive archive(folder.path());
  const Case c = some_case();
  const Setting setting;
  archive.on_case({c, setting, 3, 9});
  const auto events = toys::events_of(archive.folder());
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0]["event"], "case");
  EXPECT_EQ(events[0]["number"], 3);
  EXPECT_EQ(events[0]["case"], c.value);
}

TEST(Archive, TextThatIsNoUtf8DoesNotEndTheRun) {
  const Folder folder;
  Archive archive(folder.path());
  archive.append({{"text", "\xff\xfe"}});
  EXPECT_EQ(toys::events_of(archive.folder()).size(), 1u);
}

TEST(Archive, ASavedFailureIsReadBack) {
  const Folder folder;
  Archive archive(folder.path());
  const auto path = archive.save_failure(some_case());
  EXPECT_EQ(path.filename(), "toys.numbers-" + hash_of(some_case()).substr(0, 6) + ".json");
  const auto numbers = toys::holds_unless_one("toys.numbers");
  EXPECT_EQ(archived_failures(folder.path(), numbers),
            std::vector{numbers.parse(some_case().value)});
  EXPECT_TRUE(archived_failures(folder.path(), toys::holds_unless_one("toys.other")).empty());
}

TEST(Archive, AFileThatIsNoCaseIsRefusedByItsPath) {
  const Folder folder;
  fs::create_directories(folder.path() / "failures");
  std::ofstream(folder.path() / "failures/toys.numbers-123456.json") << "{}";
  try {
    archived_failures(folder.path(), toys::holds_unless_one("toys.numbers"));
    FAIL() << "it was accepted";
  } catch (const FieldError& error) {
    EXPECT_NE(std::string(error.what()).find("toys.numbers-123456.json"), std::string::npos);
  }
}

TEST(Archive, ACaseOfUnknownFieldsIsRefusedByItsPathAndWhatToDo) {
  const Folder folder;
  Archive archive(folder.path());
  const auto path = archive.save_failure({"toys.numbers", Json::parse(R"({"valeu": 3})")});
  try {
    archived_failures(folder.path(), toys::holds_unless_one("toys.numbers"));
    FAIL() << "it was accepted";
  } catch (const FieldError& error) {
    const std::string text = error.what();
    EXPECT_TRUE(text.starts_with(path.string() + ": case: unknown field 'valeu'")) << text;
    EXPECT_TRUE(text.ends_with("mend this file or delete it")) << text;
  }
}

TEST(Archive, AFolderThatIsAFileIsRefusedInOneSentence) {
  const Folder folder;
  std::ofstream(folder.path() / "out") << "a file";
  try {
    Archive archive(folder.path() / "out");
    FAIL() << "it was accepted";
  } catch (const ArchiveError& error) {
    EXPECT_NE(std::string(error.what()).find("--out"), std::string::npos) << error.what();
  }
}

TEST(Archive, AFullDiskIsFoundAtTheStart) {
  const Folder folder;
  if (::mount("tmpfs", folder.path().c_str(), "tmpfs", 0, "size=16k") != 0)
    GTEST_SKIP() << "this user cannot mount a small file system";
  std::string text;
  try {
    Archive archive(folder.path() / "out");
  } catch (const ArchiveError& error) {
    text = error.what();
  }
  ::umount(folder.path().c_str());
  EXPECT_NE(text.find("No space left"), std::string::npos) << text;
}

TEST(Archive, AFullDiskInTheMiddleIsAnErrorAndNotATornLineUnnoticed) {
  const Folder folder;
  if (::mount("tmpfs", folder.path().c_str(), "tmpfs", 0, "size=256k") != 0)
    GTEST_SKIP() << "this user cannot mount a small file system";
  {
    Archive archive(folder.path() / "out");
    const Json line{{"text", std::string(8192, 'x')}};
    EXPECT_THROW(for (int i = 0; i < 1000; ++i) archive.append(line), ArchiveError);
  }
  ::umount(folder.path().c_str());
}

}  // namespace
}  // namespace lockstep
