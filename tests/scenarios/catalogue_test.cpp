#include "scenarios/catalogue.h"

#include "harness/base/read_file.h"
#include "harness/cases/draw.h"
#include "harness/cases/shown_fields.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

namespace lockstep {
namespace {

TEST(Catalogue, EveryScenarioSaysWhatItClaimsAndWhereItComesFrom) {
  for (const auto& scenario : catalogue()) {
    EXPECT_NE(scenario.name.find('.'), std::string::npos) << scenario.name;
    for (const auto* text : {&scenario.claim, &scenario.exactness, &scenario.source,
                             &scenario.not_covered, &scenario.usual_mistake})
      EXPECT_FALSE(text->empty()) << scenario.name;
    EXPECT_FALSE(scenario.tags.empty()) << scenario.name;
    EXPECT_FALSE(scenario.must_catch.empty()) << scenario.name;
  }
}

// The claim heads a story; what else is judged stands in full where the scenario is explained.
TEST(Catalogue, AClaimIsOneShortSentence) {
  for (const auto& scenario : catalogue()) {
    EXPECT_LE(scenario.claim.size(), 110u) << scenario.claim;
    EXPECT_TRUE(scenario.claim.ends_with('.')) << scenario.claim;
    EXPECT_EQ(scenario.claim.find(". "), std::string::npos) << scenario.claim;
    EXPECT_EQ(scenario.claim.find("; "), std::string::npos) << scenario.claim;
  }
}

TEST(Catalogue, NamesAreUnique) {
  std::set<std::string> names;
  for (const auto& scenario : catalogue()) EXPECT_TRUE(names.insert(scenario.name).second);
}

TEST(Catalogue, DrawnCasesAreCasesAndTheSameSeedDrawsTheSame) {
  for (const auto& scenario : catalogue())
    for (uint64_t seed = 0; seed < 50; ++seed) {
      const auto c = scenario.draw(seed, 30);
      EXPECT_EQ(c, scenario.draw(seed, 30));
      EXPECT_EQ(c, scenario.parse(c.value));
      EXPECT_GE(world_size(c), 2);
    }
}

// By three tenths more, so that a run with any other seed is not red by chance.
TEST(Catalogue, DrawnCasesHaveTheSharesThatTheirScenariosRequire) {
  const uint64_t seeds = std::getenv("LOCKSTEP_CAMPAIGNS") ? 10 : 2;
  for (const auto& scenario : catalogue()) {
    int64_t drawn = 0;
    std::vector<int64_t> counts(scenario.required_shares.size());
    for (uint64_t seed = 0; seed < seeds; ++seed) {
      const auto cases = draw_cases(scenario, {.seed = seed, .schedules = true});
      for (size_t index = 0; index < cases.size(); ++index) {
        if (!cases.is_drawn(index)) continue;
        ++drawn;
        for (size_t i = 0; i < counts.size(); ++i) counts[i] += cases.labels(index) >> i & 1;
      }
    }
    for (size_t i = 0; i < counts.size(); ++i) {
      const auto& [label, share] = scenario.required_shares[i];
      EXPECT_GE(static_cast<double>(counts[i]), 1.3 * share * static_cast<double>(drawn))
          << scenario.name << ", " << label << ": " << counts[i] << " of " << drawn;
    }
  }
}

TEST(Catalogue, EveryScenarioThatDrawsRequiresWorldsOrPartsOfSomeKind) {
  for (const auto& scenario : catalogue()) {
    EXPECT_EQ(scenario.required_shares.empty(), scenario.draws <= 1) << scenario.name;
    std::set<std::string> labels;
    for (const auto& [label, share] : scenario.required_shares) {
      EXPECT_TRUE(labels.insert(label).second) << scenario.name << ": " << label;
      EXPECT_GT(share, 0);
      EXPECT_LT(share, 1);
    }
    EXPECT_LE(labels.size(), 64u);
  }
}

TEST(Catalogue, ACaseFileWithoutDefaultsIsTheCase) {
  for (const auto& scenario : catalogue())
    for (uint64_t seed = 1; seed <= 10; ++seed) {
      const SavedCase saved{scenario.draw(seed, 60),
                            Origin{scenario.draw(seed + 100, 60).value, 3, true}};
      EXPECT_EQ(written_out(scenario, parse_case_file(case_file(scenario, saved), "x")), saved)
          << scenario.name;
    }
}

// With LOCKSTEP_APPROVE set they are written anew.
TEST(Catalogue, TheCaseFilesOfTheDocsAreAsTheProgramWritesThem) {
  namespace fs = std::filesystem;
  int files = 0;
  for (const char* const folder : {"docs/matrix", "docs/findings"})
    for (const auto& entry : fs::directory_iterator(fs::path(LOCKSTEP_SOURCE) / folder)) {
      if (entry.path().extension() != ".json") continue;
      const auto saved = read_case_file(entry.path());
      const auto scenario = scenario_in_catalogue(saved.c.scenario);
      const auto text = case_file(scenario, written_out(scenario, saved));
      if (std::getenv("LOCKSTEP_APPROVE")) std::ofstream(entry.path()) << text;
      EXPECT_EQ(read_file(entry.path()), text) << entry.path();
      ++files;
    }
  EXPECT_GE(files, 40);
}

TEST(Catalogue, EveryShrinkIsACase) {
  for (const auto& scenario : catalogue()) {
    const auto smaller = scenario.smaller(scenario.draw(7, 60));
    EXPECT_FALSE(smaller.empty());
    for (const auto& c : smaller) EXPECT_EQ(scenario.parse(c.value), c);
  }
}

TEST(Catalogue, TheCanaryFailsOnAWorldThatRanWell) {
  std::vector<RankHistory> ranks(3);
  for (int64_t rank = 0; rank < 3; ++rank)
    ranks[static_cast<size_t>(rank)].events.push_back(
        {{0, "look"}, Observation{"rank", int64_values({rank})}});
  const auto canary = scenario_in_catalogue("canary.every_rank_is_rank_zero");
  EXPECT_EQ(judge(canary, canary.smallest(), History(ranks)).kind, Verdict::Kind::fail);
}

}  // namespace
}  // namespace lockstep
