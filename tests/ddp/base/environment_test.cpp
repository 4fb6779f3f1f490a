#include "ddp/base/environment.h"

#include "ddp/errors.h"
#include "tests/ddp/rendezvous/variables.h"

#include <gtest/gtest.h>

#include <vector>

namespace lockstep {
namespace {

TEST(Environment, AnEmptyVariableIsAsGoodAsNone) {
  const auto lookup = testing::lookup_in({{"EMPTY", ""}, {"SET", "x"}});
  EXPECT_EQ(value_in(lookup, "ABSENT"), std::nullopt);
  EXPECT_EQ(value_in(lookup, "EMPTY"), std::nullopt);
  EXPECT_EQ(value_in(lookup, "SET"), "x");
}

TEST(Environment, ANumberIsAWholeOneInItsRangeAndNothingElse) {
  EXPECT_EQ(whole_number("RANK", "0", 0, 2), 0);
  EXPECT_EQ(whole_number("RANK", "02", 0, 2), 2);
  const std::vector<std::string> bad = {"two", "-1",  "3",  "1 ", " 1",
                                        "1.0", "0x1", "+1", "",   "99999999999"};
  for (const std::string& value : bad) {
    try {
      whole_number("RANK", value, 0, 2);
      ADD_FAILURE() << "'" << value << "' was taken";
    } catch (const UsageError& error) {
      EXPECT_EQ(std::string(error.what()), "the environment variable RANK is '" + value +
                                               "': expected a whole number from 0 to 2");
    }
  }
}

}  // namespace
}  // namespace lockstep
