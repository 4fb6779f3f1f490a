#include "reports/history.h"

#include <gtest/gtest.h>

namespace lockstep::reports {
namespace {

RankHistory seeing(std::vector<int64_t> values) {
  RankHistory rank;
  rank.events.push_back({{0, "look"}, Observation{"indices", int64_values(values)}});
  return rank;
}

TEST(HistoryText, RowsStandSideBySide) {
  auto dead = RankHistory();
  dead.ending = {Ending::Kind::signalled, "SIGKILL"};
  EXPECT_EQ(history_text(History({seeing({1, 2}), dead})),
            "step 0  look  indices  int64[2]\n"
            "  rank 0  1 2\n"
            "  rank 1  –\n"
            "rank 0  returned\n"
            "rank 1  signalled (SIGKILL)\n");
}

TEST(HistoryText, LongTensorsAreCut) {
  EXPECT_NE(history_text(History({seeing({1, 2, 3})}), 2).find("1 2 … and 1 more"),
            std::string::npos);
}

TEST(HistoryText, ADtypeWithoutNumbersIsNamed) {
  auto rank = seeing({1});
  std::get<Observation>(rank.events[0].what).value.dtype = "float8_e4m3";
  EXPECT_NE(history_text(History({rank})).find("float8_e4m3"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::reports
