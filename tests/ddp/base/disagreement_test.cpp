#include "ddp/base/disagreement.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace lockstep {
namespace {

RankDescription saying(const std::string& value) {
  return {.properties = {{"the weather", value}}};
}

TEST(Disagreement, IsNothingAmongEqualDeclarations) {
  EXPECT_EQ(find_disagreement({saying("fine"), saying("fine")}), std::nullopt);
  EXPECT_EQ(find_disagreement({saying("fine")}), std::nullopt);
}

TEST(Disagreement, NamesTheFirstDifferenceTheRanksAndBothValues) {
  RankDescription odd = {.properties = {{"a", "1"}, {"b", "3"}, {"c", "9"}}};
  RankDescription even = {.properties = {{"a", "1"}, {"b", "2"}, {"c", "8"}}};
  EXPECT_EQ(find_disagreement({even, odd, even}),
            "ranks disagree on b: ranks 0 and 2 have 2; rank 1 has 3");
}

TEST(Disagreement, GivesTheReasonsForDifferentValuesAndComparesNone) {
  const auto fine = [](const std::string& because) {
    return RankDescription{.properties = {{"the weather", "fine", because}}};
  };
  EXPECT_EQ(find_disagreement({fine("high pressure"), fine("luck")}), std::nullopt);
  EXPECT_EQ(find_disagreement({fine("luck"), saying("rain")}),
            "ranks disagree on the weather: rank 0 has fine (luck); rank 1 has rain");
  EXPECT_EQ(decode(encode(fine("luck"))).properties, fine("luck").properties);
}

TEST(Disagreement, ComparesTheDeclarationsOfSomeRanks) {
  EXPECT_EQ(find_disagreement({1, 4, 7}, {saying("fine"), saying("rain"), saying("fine")}),
            "ranks disagree on the weather: ranks 1 and 7 have fine; rank 4 has rain");
}

TEST(Disagreement, PutsObstaclesBeforeDifferences) {
  RankDescription stuck = saying("rain");
  stuck.validation_error = "it sleeps";
  EXPECT_EQ(find_disagreement({saying("fine"), stuck, saying("fine")}),
            "rank 1 of 3 cannot take part: it sleeps");
  EXPECT_EQ(find_disagreement({stuck, stuck}), "ranks 0 and 1 of 2 cannot take part: it sleeps");
}

TEST(Disagreement, ComparesListsOfDifferentLengthAndSubject) {
  RankDescription longer = saying("fine");
  longer.properties.push_back({"the time", "noon"});
  EXPECT_EQ(find_disagreement({saying("fine"), longer}),
            "ranks disagree on what comes next in their list: rank 0 has nothing; rank 1 has the "
            "time");
}

TEST(Disagreement, SurvivesEncodingWhateverTheTextHolds) {
  RankDescription odd = {.properties = {{"", "3:abc"}, {std::string("\0:\n", 3), "ü"}},
                         .validation_error = "no: really"};
  const RankDescription back = decode(encode(odd));
  EXPECT_EQ(back.properties, odd.properties);
  EXPECT_EQ(back.validation_error, odd.validation_error);
  EXPECT_THROW(decode("1:0"), std::invalid_argument);
  EXPECT_THROW(decode("99:0"), std::invalid_argument);
  EXPECT_THROW(decode("rubbish"), std::invalid_argument);
}

TEST(Disagreement, FingerprintsAreFnv1a) {
  EXPECT_EQ(fingerprint(""), 0xcbf29ce484222325U);
  EXPECT_EQ(fingerprint("a"), 0xaf63dc4c8601ec8cU);
  EXPECT_EQ(fingerprint("foobar"), 0x85944171f73967e8U);
}

TEST(Disagreement, NamesRanksInEnglish) {
  EXPECT_EQ(name_ranks({1}), "rank 1");
  EXPECT_EQ(name_ranks({0, 2}), "ranks 0 and 2");
  EXPECT_EQ(name_ranks({0, 1, 4}), "ranks 0, 1 and 4");
}

}  // namespace
}  // namespace lockstep
