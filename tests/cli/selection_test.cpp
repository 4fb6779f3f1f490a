#include "cli/run/selection.h"

#include "cli/exit_codes.h"
#include "cli/usage.h"

#include <gtest/gtest.h>

namespace lockstep::cli {
namespace {

std::vector<Scenario> some() {
  std::vector<Scenario> all(4);
  all[0].name = "gradients.match";
  all[0].tags = {"core", "fast"};
  all[1].name = "gradients.accumulate";
  all[1].tags = {"core"};
  all[2].name = "buffers.follow_rank_zero";
  all[3].name = "proof.canary";
  all[3].tags = {"canary"};
  return all;
}

std::vector<std::string> names(const Selection& selection) {
  std::vector<std::string> out;
  for (const auto& scenario : selected(some(), selection)) out.push_back(scenario.name);
  return out;
}

std::string refusal(const Selection& selection) {
  try {
    selected(some(), selection);
  } catch (const NothingSelected& error) {
    return error.what();
  }
  return "";
}

using Names = std::vector<std::string>;

TEST(Selection, EverythingLeavesCanariesOut) {
  EXPECT_EQ(names({}),
            (Names{"gradients.match", "gradients.accumulate", "buffers.follow_rank_zero"}));
}

TEST(Selection, APatternIsTheBeginningOfANameOrAGlob) {
  EXPECT_EQ(names({.patterns = {"grad"}}), (Names{"gradients.match", "gradients.accumulate"}));
  EXPECT_EQ(names({.patterns = {"*.f*"}}), (Names{"buffers.follow_rank_zero"}));
}

TEST(Selection, TagsAreAlternativesAndUnwantedOnesDecide) {
  EXPECT_EQ(names({.tags = {"core", "fast"}}).size(), 2u);
  EXPECT_EQ(names({.tags = {"core"}, .not_tags = {"fast"}}), (Names{"gradients.accumulate"}));
}

TEST(Selection, ATagIsAnExpressionInWhichNotBindsBeforeAndAndAndBeforeOr) {
  const auto count = [](const char* tags) {
    try {
      return names({.tags = {tags}}).size();
    } catch (const NothingSelected&) {
      return size_t{0};
    }
  };
  EXPECT_EQ(names({.tags = {"core and not fast"}}), (Names{"gradients.accumulate"}));
  EXPECT_EQ(names({.tags = {"not core"}}), (Names{"buffers.follow_rank_zero"}));
  EXPECT_EQ(count("not core or fast"), 2u);
  EXPECT_EQ(count("not(core or fast)"), 1u);
  EXPECT_EQ(count("core or core and not core"), 2u);
  EXPECT_EQ(count("(core or core) and not core"), 0u);
  EXPECT_EQ(count("not not fast"), 1u);
  EXPECT_EQ(names({.not_tags = {"core and fast"}}).size(), 2u);
}

TEST(Selection, AnExpressionThatIsNoneIsRefusedWhereItBreaks) {
  const auto why = [](const char* tags) {
    try {
      names({.tags = {tags}});
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_TRUE(why("core and").starts_with("--tag core and: expected a tag at the end"));
  EXPECT_TRUE(why("core fast")
                  .starts_with("--tag core fast: expected 'and', 'or' or the end "
                               "before 'fast'"));
  EXPECT_TRUE(why("(core").starts_with("--tag (core: expected ')' at the end"));
  EXPECT_TRUE(why("or core").starts_with("--tag or core: expected a tag before 'or'"));
  EXPECT_TRUE(why(" ").starts_with("--tag  : expected a tag at the end"));
}

TEST(Selection, WhatIsExcludedIsLeftOutWhateverElseSelectsIt) {
  EXPECT_EQ(names({.patterns = {"grad"}, .excluded = {"*.match"}}),
            (Names{"gradients.accumulate"}));
  EXPECT_NE(refusal({.excluded = {"gradients.mach"}}).find("did you mean 'gradients.match'"),
            std::string::npos);
}

TEST(Selection, WhatMatchesNothingIsRefusedWithNearNames) {
  EXPECT_NE(refusal({.patterns = {"gradients.mach"}}).find("did you mean 'gradients.match'"),
            std::string::npos);
  EXPECT_NE(refusal({.tags = {"cor"}}).find("did you mean 'core'"), std::string::npos);
  EXPECT_NE(refusal({.patterns = {"buffers"}, .tags = {"core"}}), "");
}

TEST(Usage, NumbersOutsideTheirLimitsAreRefused) {
  EXPECT_EQ(whole_number("--cases", "12", 1, 20), 12);
  for (const char* text : {"0", "21", "", "1x", "1.5", " 3"})
    EXPECT_THROW(whole_number("--cases", text, 1, 20), UsageError) << text;
}

TEST(Usage, ASeedIsDecimalOrHexadecimal) {
  EXPECT_EQ(seed_value("--seed", "0x5eed42"), 0x5eed42u);
  EXPECT_EQ(seed_value("--seed", "18446744073709551615"), UINT64_MAX);
  for (const char* text : {"", "0x", "-1", "5eed", "18446744073709551616"})
    EXPECT_THROW(seed_value("--seed", text), UsageError) << text;
}

TEST(Usage, ADeadlineIsMoreThanNothing) {
  EXPECT_EQ(time_limit("--timeout", "0.5"), std::chrono::milliseconds(500));
  for (const char* text : {"0", "-1", "nan", "inf", "", "1s", "90000"})
    EXPECT_THROW(time_limit("--timeout", text), UsageError) << text;
}

TEST(Usage, ATimeHasAUnitOrIsInSeconds) {
  EXPECT_EQ(duration("--for", "90s"), std::chrono::seconds(90));
  EXPECT_EQ(duration("--for", "10m"), std::chrono::minutes(10));
  EXPECT_EQ(duration("--for", "1.5h"), std::chrono::minutes(90));
  EXPECT_EQ(duration("--for", "2"), std::chrono::seconds(2));
  for (const char* text : {"", "m", "10x", "1m30s", "0s", "-1m", "nan", "169h", "m5"})
    EXPECT_THROW(duration("--for", text), UsageError) << text;
}

Run run_with(std::vector<Result::Kind> kinds) {
  lockstep::Run run;
  for (const auto kind : kinds) {
    run.results.emplace_back();
    run.results.back().kind = kind;
  }
  return run;
}

TEST(ExitCodes, TheWorstDecides) {
  using Kind = Result::Kind;
  EXPECT_EQ(exit_code_of(run_with({Kind::pass, Kind::skip})), kHeld);
  EXPECT_EQ(exit_code_of(run_with({Kind::pass, Kind::inconclusive, Kind::flaky})), kFailed);
  EXPECT_EQ(exit_code_of(run_with({Kind::pass, Kind::inconclusive})), kInconclusive);
  EXPECT_EQ(exit_code_of(run_with({Kind::skip, Kind::skip})), kAllSkipped);
  EXPECT_EQ(exit_code_of(run_with({})), kAllSkipped);
}

TEST(ExitCodes, ACanaryThatDidNotFailIsNoSuccess) {
  auto run = run_with({Result::Kind::pass});
  run.canary = lockstep::Run::Canary::passed;
  EXPECT_EQ(exit_code_of(run), kFailed);
  run.canary = lockstep::Run::Canary::inconclusive;
  EXPECT_EQ(exit_code_of(run), kInconclusive);
}

}  // namespace
}  // namespace lockstep::cli
