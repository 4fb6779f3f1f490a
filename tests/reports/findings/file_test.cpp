#include "reports/findings/file.h"

#include "reports/findings/text.h"
#include "reports/json.h"
#include "reports/run_file.h"
#include "tests/reports/samples.h"

#include <gtest/gtest.h>

namespace lockstep::reports {
namespace {

Finding first_finding(const Json& json) {
  return reports::run_of(json, "run.json").results.at(0).worst.findings.at(0);
}

TEST(FindingsFile, AFindingIsReadAsTheValueThatItWas) {
  const auto run = samples::run_of({samples::failing()});
  const auto read = first_finding(run_json(run));
  EXPECT_EQ(read, run.results.at(0).worst.findings.at(0));
  EXPECT_EQ(read.where.record, "fc.weight");
}

TEST(FindingsFile, OfAnEarlierVersionTheTextIsRead) {
  auto json = run_json(samples::run_of({samples::failing()}));
  auto& finding = json["results"][0]["findings"][0];
  for (const char* later : {"diagnosis", "place", "details"}) finding.erase(later);
  const auto read = first_finding(json);
  EXPECT_EQ(read.diagnosis, "fc.weight: the sum of the ranks' gradients, not the average");
  EXPECT_EQ(read.where, "step 0, after_backward, fc.weight[0]");
  EXPECT_EQ(text_of(read), finding["text"]);
}

TEST(FindingsFile, ACauseIsReadAsOneAndSaidOnce) {
  auto result = samples::failing();
  result.worst.findings.at(0).details.push_back(Cause{"rank 1 has 9 batches"});
  const auto run = samples::run_of({result});
  const auto read = first_finding(run_json(run));
  EXPECT_EQ(read, run.results.at(0).worst.findings.at(0));
  EXPECT_TRUE(text_of(read).ends_with("\ncause: rank 1 has 9 batches")) << text_of(read);
}

}  // namespace
}  // namespace lockstep::reports
