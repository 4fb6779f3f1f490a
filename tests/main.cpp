#include <gtest/gtest.h>

constexpr int kAllSkipped = 77;  // The SKIP_RETURN_CODE of cmake/AddSuites.cmake.

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const int status = RUN_ALL_TESTS();
  const auto& unit = *testing::UnitTest::GetInstance();
  const bool all_skipped = unit.skipped_test_count() > 0 && unit.successful_test_count() == 0;
  return status == 0 && all_skipped ? kAllSkipped : status;
}
