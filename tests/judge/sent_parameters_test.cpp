// Checks ranks that send each other what one of them updated.
#include "harness/invariants/canaries/right_run.h"
#include "harness/invariants/judge_run.h"
#include "harness/invariants/rows.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace lockstep::recorded {
namespace {

// Ranks update a tensor each, and send it; the last one is sent or not.
TEST(SentParameters, AllowUpdatesOfPartsThatAreSentBeforeTheNextForward) {
  for (const bool sends_all : {true, false}) {
    auto run = right_run();
    for (auto& rank : run.ranks)
      for (int step = 0; step < kSteps; ++step) {
        auto& updated = nth<Digests>(rank, step + 1, "parameters");
        const auto all = updated;
        updated.values[rank.number ? 0 : 1].bits = 70;
        if (step + 1 == kSteps) continue;
        auto sent = all;
        if (!sends_all && rank.number == 0) sent.values[1].bits = 70;
        rank.records.push_back({{step + 1, "forward"}, sent});
      }
    // `records` are in the order of moments, as a rank writes them.
    for (auto& rank : run.ranks)
      std::stable_sort(rank.records.begin(), rank.records.end(),
                       [](const auto& a, const auto& b) { return comes_before(a.at, b.at); });
    const auto judgement = parameters_are_the_same(run);
    ASSERT_EQ(judgement.findings.size(), sends_all ? 0u : 1u);
    if (sends_all) {
      EXPECT_EQ(judgement.remarks.at(0).pattern, "equal_before_the_forward");
    } else {
      const auto& finding = judgement.findings.front();
      EXPECT_EQ(finding.where, "step 1, forward, w1");
      EXPECT_NE(std::get<Cause>(finding.details.back()).text.find("but not all of it"),
                std::string::npos);
    }
  }
}

// The program of a rank that never updates: each forward finds what rank 0 sent.
Rank without_updates(Rank rank, bool lacks_one) {
  std::vector<Record> records;
  for (auto& record : rank.records) {
    const auto step = record.at.step;
    if (record.at.phase == "update") continue;
    const auto* digests_of = std::get_if<Digests>(&record.what);
    if (step > 0 && digests_of && digests_of->list->role == "random")
      records.push_back(
          {{0, "forward"},
           digests("parameters", {{uint64_t(step) + 9, 1}, {lacks_one ? 2u : 3u, 1}})});
    record.at.step = 0;
    records.push_back(std::move(record));
  }
  rank.records = std::move(records);
  rank.history.last = {0, "backward"};
  return rank;
}

TEST(SentParameters, CompareTheForwardsOfRanksForWhichOneRankUpdates) {
  for (const bool lacks_one : {false, true}) {
    auto run = right_run();
    for (int step = 0; step < kSteps; ++step)
      run.ranks[0].history.events.push_back(
          {{step, "update"}, Collective{.op = "broadcast", .group = "alone", .elements = 4}});
    run.ranks[1] = without_updates(std::move(run.ranks[1]), lacks_one);
    const auto results = judged(run).results;
    for (const auto& result : results)
      EXPECT_EQ(is_failure(result.kind), lacks_one && result.scenario == "parameters.are_the_same")
          << result.scenario << ": "
          << (result.worst.findings.empty() ? "" : result.worst.findings.front().diagnosis);
  }
}

TEST(SentParameters, DoNotJudgeStepsWhereOneRankUpdatesForAll) {
  for (const bool sends : {true, false}) {
    auto run = right_run();
    for (int step = 0; step < kSteps && sends; ++step)
      run.ranks[0].history.events.push_back(
          {{step, "update"}, Collective{.op = "broadcast", .group = "world", .elements = 4}});
    for (auto& rank : run.ranks) {
      nth<Fact>(rank, 0, "model 0").values["wrapper"] = "watched";
      rank.history.ending.kind = Ending::Kind::returned;
    }
    run.ranks[1] = without_updates(std::move(run.ranks[1]), false);
    const auto judgement = ranks_make_the_same_steps(run);
    EXPECT_EQ(judgement.findings.empty(), sends);
    EXPECT_EQ(judgement.why_not.find("one rank alone updates") != std::string::npos, sends);
  }
}

// As ranks do that take each other's states of random generators.
TEST(SentParameters, AreNotWhatLeavesTheParametersOfOthersAsTheyWere) {
  auto run = right_run();
  for (int step = 0; step < kSteps; ++step)
    run.ranks[0].history.events.push_back(
        {{step, "update"}, Collective{.op = "broadcast", .group = "world", .elements = 4}});
  std::erase_if(run.ranks[1].records, [](const Record& is) { return is.at.phase == "update"; });
  EXPECT_EQ(ranks_make_the_same_steps(run).findings.at(0).pattern, "skipped_update");
}

// A learner computes all gradients from what its actors send, and sends what it made of them, by
// broadcasts or one by one. One that receives nothing drops what the others compute.
TEST(SentParameters, AskForNoAverageWhereOneRankAloneHasGradients) {
  for (const auto& [op, receives] :
       {std::pair{"broadcast", true}, {"send", true}, {"barrier", false}, {"broadcast", false}}) {
    const bool sends = op != std::string("barrier");
    auto run = right_run();
    for (auto& rank : run.ranks) {
      rank.history.events.clear();
      nth<Fact>(rank, 0, "model 0").values["wrapper"] = "watched";
      for (int step = 0; step < kSteps; ++step) {
        nth<Fact>(rank, step, "backward").values["kind"] = "by hand";
        rank.history.events.push_back(
            {{step, "update"}, Collective{.op = op, .group = "world", .elements = 4}});
        if (receives)
          rank.history.events.push_back(
              {{step, "forward"}, Collective{.op = "gather", .group = "world", .elements = 2}});
      }
    }
    std::erase_if(run.ranks[1].records, [](const Record& is) { return is.at.phase != ""; });
    EXPECT_EQ(forwards_run_through_the_wrapper(run).findings.empty(), sends && receives)
        << op << receives;
    EXPECT_EQ(ranks_make_the_same_steps(run).findings.empty(), sends) << op;
  }
}

}  // namespace
}  // namespace lockstep::recorded
