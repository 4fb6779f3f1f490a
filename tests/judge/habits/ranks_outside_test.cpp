// Checks what becomes of ranks that are in none of the groups that train.
#include "harness/invariants/canaries/descent.h"
#include "harness/invariants/canaries/right_run.h"
#include "harness/invariants/judge_run.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace lockstep::recorded {
namespace {

// The names of the invariants that fail in the whole judgement.
std::vector<std::string> failed_in(const RecordedRun& run) {
  std::vector<std::string> names;
  for (const auto& result : judged(run).results)
    if (is_failure(result.kind)) names.push_back(result.scenario);
  return names;
}

// The patterns of what an invariant remarks in the whole judgement.
std::vector<std::string> remarks_in(const RecordedRun& run, std::string_view invariant) {
  std::vector<std::string> patterns;
  for (const auto& result : judged(run).results)
    if (result.scenario == invariant)
      for (const auto& remark : result.remarks) patterns.push_back(remark.pattern);
  return patterns;
}

// The third rank wraps nothing and trains nothing: it evaluates what the others send, say.
TEST(RanksOutside, AreNamedInARemarkWhereTheyTrainNothing) {
  for (const bool trains : {false, true}) {
    auto run = right_run();
    for (auto& rank : run.ranks) {
      rank.world = 3;
      auto& model = nth<Fact>(rank, 0, "model 0").values;
      model["wrapper"] = "DistributedDataParallel";
      model["ranks"] = {0, 1};
    }
    auto& other = run.ranks.emplace_back(right_rank(2, 3));
    std::erase_if(other.records, [&](const Record& is) {
      return is.at.phase != "" && !(trains && is.at.phase == "backward");
    });
    for (auto& rank : run.ranks)
      nth<Fact>(rank, 0, "process group").values = {{"rank", rank.number}, {"world", 3}};
    EXPECT_EQ(failed_in(run),
              trains ? std::vector<std::string>{"run.has_one_length"} : std::vector<std::string>());
    EXPECT_EQ(remarks_in(run, "run.is_recorded_whole"),
              trains ? std::vector<std::string>() : std::vector<std::string>{"trains_nothing"});
  }
}

// The result of an invariant that compares two ranks, beside a third that trains nothing, with one
// process.
Result beside_one_process(RecordedRun run) {
  for (auto& rank : run.ranks) {
    rank.world = 3;
    const Json model{{"wrapper", "DistributedDataParallel"}, {"ranks", {0, 1}}};
    rank.records.insert(rank.records.begin(), {{0, "construction"}, Fact{"model 0", model}});
  }
  run.ranks.push_back({.is_there = true, .number = 2, .world = 3});
  for (auto& rank : run.ranks) {
    rank.records.insert(rank.records.begin(),
                        {{}, Fact{"process group", {{"rank", rank.number}, {"world", 3}}}});
    rank.history.events.push_back(
        {{},
         Collective{.op = "barrier", .group = "world", .dtype = "", .elements = 0, .done = true}});
  }
  const auto one = one_process();
  const auto all = judged(run, &one);
  return *std::find_if(all.results.begin(), all.results.end(), [](const Result& result) {
    return result.scenario == "values.follow_one_process";
  });
}

TEST(RanksOutside, DoNotKeepTheOthersFromBeingComparedWithOneProcess) {
  const auto right = beside_one_process(ranks_of(2, 2e-7F));
  EXPECT_EQ(right.kind, Result::Kind::pass) << right.groups.front().reason;
  auto run = ranks_of(2);
  change(run, "gradients", 0, times(2));
  const auto wrong = beside_one_process(run);
  ASSERT_EQ(wrong.kind, Result::Kind::fail) << wrong.groups.front().reason;
  EXPECT_EQ(wrong.worst.findings.front().pattern, "sum_not_average");
}

}  // namespace
}  // namespace lockstep::recorded
