#include "harness/worlds/about.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(About, SaysWhichLibTorchWasLoaded) {
  const auto about = about_torch();
  EXPECT_EQ(about.version.find("2."), 0u) << about.version;
  EXPECT_NE(about.library.find("libtorch_cpu"), std::string::npos) << about.library;
  EXPECT_TRUE(about.gloo);
  EXPECT_GE(about.intra_op_threads, 1);
}

}  // namespace
}  // namespace lockstep
