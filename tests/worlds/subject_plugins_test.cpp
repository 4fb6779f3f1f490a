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

}  // namespace
}  // namespace lockstep
