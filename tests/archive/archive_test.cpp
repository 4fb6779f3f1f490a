#include "harness/archive/archive.h"

#include "harness/archive/archived_failures.h"
#include "tests/campaign/planted.h"
#include "tests/campaign/toys.h"

#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using toys::Folder;

Case some_case() {
  return toys::cases_of(toys::holds_unless_one(), {5}).front();
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
  const auto path = archive.save_failure(some_case(), case_file({some_case()}));
  EXPECT_EQ(path.filename(), "toys.numbers-" + hash_of(some_case()).substr(0, 6) + ".json");
  const auto numbers = toys::holds_unless_one("toys.numbers");
  EXPECT_EQ(archived_failures(folder.path(), numbers).cases,
            std::vector{numbers.parse(some_case().value)});
  EXPECT_TRUE(archived_failures(folder.path(), toys::holds_unless_one("toys.other")).cases.empty());
}

TEST(Archive, AFailureOutsideThePreconditionIsReportedAndNotRun) {
  const Folder folder;
  Archive archive(folder.path());
  const auto path = archive.save_failure(some_case(), case_file({some_case()}));
  auto numbers = toys::holds_unless_one("toys.numbers");
  numbers.unmet_precondition = [](const Case& c) {
    return toys::value_of(c) == toys::value_of(some_case()) ? "the number must be another" : "";
  };
  const auto [cases, refused] = archived_failures(folder.path(), numbers);
  EXPECT_TRUE(cases.empty());
  EXPECT_EQ(refused, std::vector{path.string() + " is not run: the number must be another; it "
                                                 "proves nothing: delete it"});
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

std::string refusal_of_archived(const fs::path& root) {
  try {
    archived_failures(root, toys::holds_unless_one("toys.numbers"));
  } catch (const FieldError& error) {
    return error.what();
  }
  return "none";
}

TEST(Archive, AFileThatIsRefusedComesWithTheCureOfItsReason) {
  const Folder folder;
  const auto file = folder.path() / "failures/toys.numbers-123456.json";
  fs::create_directories(file.parent_path());
  const std::string start = R"({"lockstep_case": 1, "scenario": "toys.numbers", "value": )";
  for (const auto& [text, why, cure] : std::vector<std::array<std::string, 3>>{
           {start + R"({"valeu": 3}})", "case: unknown field 'valeu'", "rename the field"},
           {start + R"({"value": 1001}})", "1001 is too large", "mend the value"},
           {start + R"({"val)", "not JSON", "it was cut or changed: restore it"},
           {"", "is empty", "it was cut or changed: restore it"},
           {R"({"lockstep_case": 99})", "case file version 99", "the version that wrote it"}}) {
    std::ofstream(file) << text;
    const auto refusal = refusal_of_archived(folder.path());
    EXPECT_TRUE(refusal.starts_with(file.string() + ": ")) << refusal;
    EXPECT_NE(refusal.find(why), std::string::npos) << refusal;
    EXPECT_NE(refusal.find("; archived failures run first: "), std::string::npos);
    EXPECT_NE(refusal.find(cure), std::string::npos) << refusal;
  }
  fs::remove(file);
  fs::create_directory(file);
  EXPECT_TRUE(refusal_of_archived(folder.path()).ends_with("which is for case files"));
}

TEST(Archive, AllFilesThatAreRefusedAreNamed) {
  const Folder folder;
  fs::create_directories(folder.path() / "failures");
  for (const char* name : {"toys.numbers-1.json", "toys.numbers-2.json", "toys.numbers-3.json"})
    std::ofstream(folder.path() / "failures" / name) << "{}";
  const auto refusal = refusal_of_archived(folder.path());
  EXPECT_NE(refusal.find("toys.numbers-1.json: "), std::string::npos) << refusal;
  EXPECT_TRUE(refusal.ends_with(
      "; beside it these cannot be run: toys.numbers-2.json, toys.numbers-3.json"))
      << refusal;
}

TEST(Archive, AFileThatThisUserMayNotReadIsNotToBeDeleted) {
  const Folder folder;
  const auto file = folder.path() / "failures/toys.numbers-123456.json";
  fs::create_directories(file.parent_path());
  std::ofstream{file};
  fs::permissions(folder.path(), fs::perms(0755));
  fs::permissions(file, fs::perms::none);
  const bool is_root = ::geteuid() == 0;
  constexpr uid_t kNobody = 65534;
  if (is_root) ASSERT_EQ(::seteuid(kNobody), 0);
  const auto refusal = refusal_of_archived(folder.path());
  if (is_root) ASSERT_EQ(::seteuid(0), 0);
  EXPECT_TRUE(refusal.ends_with("let this user read it")) << refusal;
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

TEST(Archive, AFullDiskInTheMiddleIsSaid) {
  const Folder folder;
  if (::mount("tmpfs", folder.path().c_str(), "tmpfs", 0, "size=256k") != 0)
    GTEST_SKIP() << "this user cannot mount a small file system";
  {
    Archive archive(folder.path() / "out");
    const Json line{{"text", std::string(8192, 'x')}};
    for (int i = 0; i < 1000; ++i) archive.append(line);
    EXPECT_NE(archive.loss().find("No space left"), std::string::npos) << archive.loss();
  }
  ::umount(folder.path().c_str());
}

TEST(Archive, ACaseSurvivesTheWayThroughItsFile) {
  const auto scenario = planted::scenario_of_planted();
  EXPECT_TRUE(rc::check([&](uint64_t seed) {
    const auto c = scenario.draw(seed, static_cast<int>(seed % 100));
    const auto drawn = scenario.draw(seed + 1, 50);
    const SavedCase saved{c, Origin{drawn.value, static_cast<int>(seed % 90), seed % 2 == 0}};
    RC_ASSERT(parse_case_file(case_file(saved), "x.json") == saved);
    RC_ASSERT(parse_case_file(case_file({c}), "x.json") == SavedCase{c});
    RC_ASSERT(scenario.parse(c.value) == c);
    RC_ASSERT(scenario.parse(Json::parse(c.value.dump())) == c);
  }));
}

}  // namespace
}  // namespace lockstep
