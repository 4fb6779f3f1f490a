#include "harness/worlds/subject.h"
#include "harness/worlds/subjects.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

const Subjects kBoth{Subject{.name = "own"}, Subject{.name = "foreign"}};

TEST(SubjectPlugins, ASubjectWithoutOneCanAlwaysBeUsed) {
  EXPECT_EQ(kBoth.why_not("own"), "");
  kBoth.load("own");
}

TEST(SubjectPlugins, AreLoadedForTheirSubjectAlone) {
  int loads = 0;
  const auto subjects = kBoth.with_plugin("foreign", {.why_not = "", .load = [&] { ++loads; }});
  EXPECT_EQ(subjects.names(), kBoth.names());
  subjects.load("own");
  EXPECT_EQ(loads, 0);
  subjects.load("foreign");
  EXPECT_EQ(loads, 1);
  kBoth.load("foreign");  // the list that it was made of knows nothing of it
  EXPECT_EQ(loads, 1);
}

TEST(SubjectPlugins, ThatCannotBeUsedHereAreNotLoaded) {
  const auto subjects =
      kBoth.with_plugin("foreign", {.why_not = "it is not installed", .load = [] { FAIL(); }});
  EXPECT_EQ(subjects.why_not("foreign"), "it is not installed");
  EXPECT_EQ(subjects.why_not("own"), "");
  subjects.load("foreign");
}

TEST(SubjectPlugins, BelongToASubjectOfTheList) {
  EXPECT_THROW(kBoth.with_plugin("nobody", {}), std::invalid_argument);
}

// Counts what it loads and opens.
Subjects with_files(int& loads, int& opened, const std::string& why_not = "") {
  return kBoth.with_files({.kind = "python",
                           .plugin = {.why_not = why_not, .load = [&] { ++loads; }},
                           .open = [&](const std::string& name, const std::string& path) {
                             ++opened;
                             if (path == "bad.py") throw std::runtime_error("bad.py is bad");
                             return Subject{.name = name};
                           }});
}

TEST(SubjectFiles, AreSubjectsOnceTheyAreLoaded) {
  int loads = 0, opened = 0;
  const auto subjects = with_files(loads, opened);
  EXPECT_TRUE(subjects.is_file("python:a.py"));
  EXPECT_FALSE(subjects.is_file("own"));
  EXPECT_FALSE(subjects.contains("python:a.py"));
  EXPECT_EQ(subjects.choices(), (std::vector<std::string>{"own", "foreign", "python:FILE.py"}));
  const auto copy = subjects;
  subjects.load("python:a.py");
  subjects.load("python:a.py");
  EXPECT_EQ(loads, 2) << "a plugin knows itself whether it is loaded";
  EXPECT_EQ(opened, 1);
  EXPECT_EQ(copy.at("python:a.py").name, "python:a.py");
  EXPECT_EQ(copy.names(), (std::vector<std::string>{"own", "foreign", "python:a.py"}));
}

TEST(SubjectFiles, ThatAreBadAreNamed) {
  int loads = 0, opened = 0;
  const auto subjects = with_files(loads, opened);
  try {
    subjects.load("python:bad.py");
    FAIL();
  } catch (const SubjectError& error) {
    EXPECT_STREQ(error.what(), "subject python:bad.py: bad.py is bad");
  }
  EXPECT_FALSE(subjects.contains("python:bad.py"));
}

TEST(SubjectFiles, AreNotOpenedWhereTheirPluginCannotBeUsed) {
  int loads = 0, opened = 0;
  const auto subjects = with_files(loads, opened, "it is not installed");
  EXPECT_EQ(subjects.why_not("python:a.py"), "it is not installed");
  subjects.load("python:a.py");
  EXPECT_EQ(loads + opened, 0);
}

TEST(SubjectFiles, NeedAProgramThatKnowsThem) {
  EXPECT_FALSE(kBoth.is_file("python:a.py"));
  EXPECT_EQ(kBoth.choices(), kBoth.names());
}

}  // namespace
}  // namespace lockstep
