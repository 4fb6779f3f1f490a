// The keys of run.json, which programs of others read: none may get lost.
#include "harness/base/text.h"
#include "reports/run_file.h"
#include "tests/reports/samples.h"

#include <gtest/gtest.h>

namespace lockstep::reports {
namespace {

std::string keys_of(const Json& json) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : json.items()) keys.push_back(key);
  return joined(keys, " ");
}

TEST(RunKeys, OfARun) {
  const auto run = samples::run_on_one_gpu({samples::passing()});
  const auto json = run_json(run);
  EXPECT_EQ(keys_of(json),
            "lockstep_run version libtorch seed shard shards_missing cores slots shared_devices "
            "folder exit_code interrupted canary seconds jobs results not_finished");
  EXPECT_EQ(keys_of(json["jobs"][0]), "scenario subject tier backend exactness cases hash");
  EXPECT_EQ(keys_of(json["results"][0]),
            "scenario subject tier backend claim exactness result verdict findings seconds groups "
            "signature judged refused labels world_min world_max shares_devices");
  EXPECT_EQ(keys_of(json["results"][0]["groups"][0]), "verdict reason world labels cases");
}

TEST(RunKeys, OfAFailure) {
  const auto json = run_json(samples::run_of({samples::shrunk()}))["results"][0];
  EXPECT_EQ(keys_of(json["failure"]),
            "number of case unlike_default runs case_file logs tail_rank tail tail_file stack "
            "stack_file call_sites shrunk hash");
  EXPECT_EQ(keys_of(json["failure"]["shrunk"]),
            "drawn drawn_unlike_default steps runs tier seconds end failed smallest_runs notes");
  const auto& finding = json["findings"][0];
  EXPECT_EQ(keys_of(finding), "rule pattern where diagnosis place details text");
  EXPECT_EQ(keys_of(finding["place"]), "step phase record index");
  const auto& table = finding["details"][1];
  EXPECT_EQ(keys_of(table), "columns rows heading_of_remarks");
  EXPECT_EQ(keys_of(table["columns"][0]), "heading holds rank");
  EXPECT_EQ(keys_of(table["rows"][0]), "cells numbers wrong mark remark rank");
}

TEST(RunKeys, OfAnotherSignature) {
  const auto json = run_json(samples::run_of({samples::of_two_signatures()}))["results"][0];
  EXPECT_TRUE(json.contains("signatures"));
  EXPECT_EQ(keys_of(json["others"][0]), "result verdict findings failure signature");
}

// As where a flag fixes a field that the scenario lacks.
TEST(RunKeys, AResultWithoutCasesHasTheReasonOfItsFinding) {
  auto json = run_json(samples::run_of({samples::of_kind(Result::Kind::skip)}));
  json["results"][0]["groups"] = Json::array();
  EXPECT_EQ(samples::read(json).results[0].refused.begin()->second, 0);
  json["results"][0]["findings"] = Json::array();
  try {
    samples::read(json);
    FAIL() << "it was accepted";
  } catch (const FieldError& error) {
    EXPECT_TRUE(std::string(error.what()).ends_with("refused cases, or a finding that says why"));
  }
}

}  // namespace
}  // namespace lockstep::reports
