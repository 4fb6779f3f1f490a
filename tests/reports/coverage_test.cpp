#include "reports/coverage.h"

#include "harness/cases/groups.h"
#include "reports/run_file.h"
#include "reports/run_text.h"
#include "reports/terminal.h"
#include "tests/reports/samples.h"

#include <gtest/gtest.h>

namespace lockstep::reports {
namespace {

using Kind = Result::Kind;
using samples::passing;
using samples::run_of;

constexpr Columns kColumns{30, 4, 9};

std::string refusal(const Json& json) {
  try {
    samples::read(json);
  } catch (const FieldError& error) {
    return error.what();
  }
  return "none";
}

// The result of 200 drawn cases of which `hard` are hard, where a quarter must be.
Result with_shares(int64_t hard, const std::string& scenario = "a.b") {
  auto result = passing();
  result.scenario = scenario;
  result.labels["drawn"] = 200;
  result.labels["hard"] = hard;
  result.required_shares = {{"hard", 0.25}};
  judge_shares(result);
  return result;
}

TEST(Coverage, TheSummarySaysHowManySharesAreMetAndWhichIsTheClosest) {
  const auto run = run_of({with_shares(80), with_shares(60, "a.c"), with_shares(70, "a.d")});
  EXPECT_EQ(statistics(run),
            "labels: 3 of 3 required shares met; the closest: a.c, hard: 60 of 200 drawn cases (30 "
            "%), at least 25 % required\n");
  EXPECT_EQ(summary(run, {}).find("labels"), std::string::npos) << "nobody asked";
  EXPECT_EQ(statistics(run_of({passing()})), "");
  EXPECT_EQ(summary(run_of({with_shares(3)}), {}).find("labels"), std::string::npos)
      << "the result's story says it";
}

TEST(Coverage, TheSummarySaysHowManyPairsOfOptionsTheCasesCover) {
  auto run = run_of({});
  run.jobs = {{.scenario = "a.b", .pairs = {44, 48}},
              {.scenario = "a.b", .setting = {.tier = "warm"}, .pairs = {44, 48}},
              {.scenario = "a.c", .pairs = {12, 12}}};
  EXPECT_EQ(statistics(run), "pairs of options: 56 of 60 covered; the fewest: 44 of 48 of a.b\n");
}

TEST(Coverage, APassOfEveryScheduleSaysHowManyThereWere) {
  auto result = passing();
  result.schedules = {.schedules = 1200, .cases = 400, .complete = 400};
  EXPECT_NE(result_text(result, run_of({}), kColumns, {})
                .find("worlds 2-4 · 1,200 schedules, all of 400 cases\n"),
            std::string::npos);
  result.schedules = {.schedules = 41'000, .cases = 400, .complete = 398, .decisions_min = 12};
  EXPECT_NE(result_text(result, run_of({}), kColumns, {})
                .find("41,000 schedules, all of 398 of 400 cases, the others up to decision 12\n"),
            std::string::npos);
}

TEST(Coverage, SharesSchedulesAndPairsAreRead) {
  auto run = run_of({passing()});
  auto& result = run.results[0];
  result.labels = {{"world 2", 200}, {"world 4", 200}, {"drawn", 200}, {"hard", 200}};
  result.groups[1].labels = {"world 4", "drawn", "hard"};
  result.required_shares = {{"hard", 0.25}};
  result.schedules = {.schedules = 120, .cases = 3, .complete = 2, .decisions_min = 9};
  run.jobs[0].pairs = {.covered = 44, .all = 48};
  const auto json = run_json(run);
  EXPECT_EQ(run_json(samples::read(json)), json);
  EXPECT_EQ(samples::read(json).results[0].required_shares, result.required_shares);
  EXPECT_EQ(samples::read(json).results[0].schedules, result.schedules);
  EXPECT_EQ(samples::read(json).jobs[0].pairs, run.jobs[0].pairs);
  const auto refused = [&](const char* at, const Json& value) {
    auto changed = json;
    changed[Json::json_pointer(at)] = value;
    return refusal(changed);
  };
  EXPECT_NE(
      refused("/results/0/required_shares/0/share", 1.5).find("1.5 is too large; the most is 1"),
      std::string::npos);
  EXPECT_NE(refused("/results/0/schedules/complete", 4).find("more than 'cases'"),
            std::string::npos);
  EXPECT_NE(refused("/jobs/0/pairs/covered", 49).find("more than 'all'"), std::string::npos);
}

// It has no case to blame.
TEST(Coverage, AResultThatMissesAShareNeedsNoFailureAndAnotherOneDoes) {
  auto run = run_of({passing()});
  auto& result = run.results[0];
  result.labels["drawn"] = 200;
  result.groups[1].labels.push_back("drawn");
  result.required_shares = {{"hard", 0.25}};
  judge_shares(result);
  ASSERT_EQ(result.kind, Kind::fail);
  auto json = run_json(run);
  EXPECT_EQ(run_json(samples::read(json)), json);
  json["results"][0].erase("required_shares");
  EXPECT_NE(refusal(json).find("has no 'failure'"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::reports
