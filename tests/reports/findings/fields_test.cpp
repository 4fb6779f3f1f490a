#include "reports/findings/fields.h"

#include "reports/run_file.h"
#include "tests/reports/samples.h"

#include <gtest/gtest.h>

namespace lockstep::reports {
namespace {

Finding first_finding(const Json& json) {
  return samples::read(json).results.at(0).worst.findings.at(0);
}

TEST(FindingFields, AFindingIsReadAsTheValueThatItWas) {
  const auto run = samples::run_of({samples::failing()});
  const auto read = first_finding(run_json(run));
  EXPECT_EQ(read, run.results.at(0).worst.findings.at(0));
  EXPECT_EQ(read.where.record, "fc.weight");
}

TEST(FindingFields, ACauseIsReadAsOneAndSaidOnce) {
  auto result = samples::failing();
  result.worst.findings.at(0).details.push_back(Cause{"rank 1 has 9 batches"});
  const auto run = samples::run_of({result});
  const auto read = first_finding(run_json(run));
  EXPECT_EQ(read, run.results.at(0).worst.findings.at(0));
  EXPECT_TRUE(text_of(read).ends_with("\ncause: rank 1 has 9 batches")) << text_of(read);
}

}  // namespace
}  // namespace lockstep::reports
