#include "harness/history/history.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

namespace lockstep {
namespace {

RankHistory saw(std::vector<std::pair<Moment, std::vector<int64_t>>> values) {
  RankHistory rank;
  for (auto& [at, value] : values)
    rank.events.push_back({at, Observation{"x", int64_values(value)}});
  return rank;
}

TEST(History, ARowHoldsWhatEveryRankSaw) {
  const History h({saw({{{0, "p"}, {1}}}), saw({{{0, "p"}, {2}}})});
  const auto row = h.row({0, "p"}, "x");
  EXPECT_EQ(as_integers(row.by_rank.at(0)).at(0), 1);
  EXPECT_EQ(as_integers(row.by_rank.at(1)).at(0), 2);
}

std::vector<double> read(const std::string& dtype, std::vector<uint16_t> bits) {
  TensorValue value{dtype, {static_cast<int64_t>(bits.size())}, {}};
  value.bytes.resize(2 * bits.size());
  std::memcpy(value.bytes.data(), bits.data(), value.bytes.size());
  return as_doubles(value);
}

TEST(History, HalfPrecisionIsReadAsTheNumbersItHolds) {
  EXPECT_EQ(read("float16", {0x3c00, 0xc100, 0x7bff, 0x0400, 0x0001, 0x8000}),
            (std::vector<double>{1, -2.5, 65504, 0x1p-14, 0x1p-24, 0}));
  EXPECT_EQ(read("bfloat16", {0x3f80, 0xc020, 0x0080, 0x0001}),
            (std::vector<double>{1, -2.5, 0x1p-126, 0x1p-133}));
  EXPECT_TRUE(std::isinf(read("float16", {0x7c00})[0]));
  EXPECT_TRUE(std::isnan(read("bfloat16", {0x7fc0})[0]));
}

TEST(History, ARowThatOneRankLacksIsNotSeen) {
  const History h({saw({{{0, "p"}, {1}}}), saw({})});
  EXPECT_THROW(h.row({0, "p"}, "x"), NotSeen);
  EXPECT_THROW(h.rows("p"), NotSeen);
}

TEST(History, ARowThatOnlyALaterRankSawIsNotSeenEither) {
  const History h({saw({{{0, "p"}, {1}}}), saw({{{0, "p"}, {1}}, {{1, "p"}, {1}}})});
  EXPECT_THROW(h.rows("p"), NotSeen);
}

TEST(History, APhaseNobodyRecordedIsNotSeen) {
  EXPECT_THROW(History({saw({{{0, "p"}, {1}}})}).rows("q"), NotSeen);
}

TEST(History, TheLastRecordOfANameCounts) {
  const History h({saw({{{0, "p"}, {1}}, {{0, "p"}, {7}}})});
  EXPECT_EQ(as_integers(h.row({0, "p"}, "x").by_rank.at(0)).at(0), 7);
}

TEST(History, TheHashDependsOnValuesAndEndings) {
  const History one({saw({{{0, "p"}, {1}}})});
  auto other = saw({{{0, "p"}, {1}}});
  other.ending = {Ending::Kind::threw, "x"};
  EXPECT_EQ(hash_of(one), hash_of(History({saw({{{0, "p"}, {1}}})})));
  EXPECT_NE(hash_of(one), hash_of(History({saw({{{0, "p"}, {2}}})})));
  EXPECT_NE(hash_of(one), hash_of(History({other})));
}

TEST(History, NumbersWithoutAReadingAreRefused) {
  EXPECT_THROW(as_doubles({"complex64", {1}, {}}), std::invalid_argument);
  EXPECT_THROW(as_integers({"float32", {1}, {}}), std::invalid_argument);
}

}  // namespace
}  // namespace lockstep
