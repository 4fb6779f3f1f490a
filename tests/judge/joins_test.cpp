// Ranks with uneven inputs: what a join made unequal stands beside each other, and nothing else.
#include "harness/recorded/joins.h"

#include "harness/invariants/canaries/right_run.h"
#include "harness/invariants/judge_run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

namespace lockstep::recorded {
namespace {

// The first epoch of a right run in a join, in which rank 1 makes one step of two. In the other
// step it shadows what the others send, in another number of collectives.
RecordedRun uneven_run() {
  auto run = right_run();
  for (auto& rank : run.ranks) {
    const bool runs_out = rank.number == 1;
    auto& records = rank.records;
    auto& events = rank.history.events;
    if (runs_out) {
      std::erase_if(records, [](const Record& record) {
        return record.at.step == 1 && record.at.phase != "data";
      });
      std::erase_if(events, [](const Event& event) { return event.at.step == 1; });
      const Collective shadow{.op = "allreduce", .group = "world", .sequence = 2, .done = true};
      events.insert(events.begin() + 2, {{1, "join"}, shadow});
      for (auto& record : records) record.at.step -= record.at.step > 1 ? 1 : 0;
      for (size_t event = 3; event < events.size(); ++event) {
        --events[event].at.step;
        --std::get<Collective>(events[event].what).sequence;
      }
      --rank.history.last.step;
    }
    const auto second_epoch = std::find_if(records.begin(), records.end(), [](const Record& each) {
      const auto* fact = std::get_if<Fact>(&each.what);
      return fact && fact->whole("epoch") == 1;
    });
    rank.joins = {{.from_step = 0,
                   .to_step = runs_out ? 1 : 2,
                   .from_event = 0,
                   .to_event = runs_out ? 3u : 4u,
                   .to_record = static_cast<size_t>(second_epoch - records.begin()),
                   .has_ended = true}};
  }
  return run;
}

std::vector<std::string> failing(const RecordedRun& run) {
  std::vector<std::string> names;
  for (const auto& result : judged(run).results)
    if (result.kind != Result::Kind::pass && result.kind != Result::Kind::skip)
      names.push_back(result.scenario);
  return names;
}

TEST(Joins, OfUnevenRanksAreNoMistake) {
  EXPECT_EQ(failing(uneven_run()), std::vector<std::string>());
  const auto aligned = with_joins_aligned(uneven_run());
  for (const auto& rank : aligned->ranks)
    EXPECT_EQ(rank.history.events.back().at, (Moment{kSteps - 1, "backward"}));
}

// A divided optimizer updates on the rank that is out of inputs too: its steps are not shifted.
TEST(Joins, OfDividedOptimizersUpdateWithoutInputs) {
  for (const bool is_known : {true, false}) {
    auto run = right_run();
    auto& rank = run.ranks[1];
    std::erase_if(rank.records, [](const Record& record) {
      return record.at.step == 1 && record.at.phase != "update" && record.at.phase != "data";
    });
    auto& events = rank.history.events;
    const auto first = std::find_if(events.begin(), events.end(),
                                    [](const Event& event) { return event.at.step == 1; });
    *first = {{1, "join"}, Collective{.op = "allreduce", .group = "world", .sequence = 2}};
    for (auto& each : run.ranks)
      each.joins = {{.from_step = 0,
                     .to_step = 2,
                     .out_step = is_known ? std::optional(each.number == 1 ? 1 : 2) : std::nullopt,
                     .to_event = 4,
                     .to_record = each.records.size(),
                     .has_ended = true}};
    const auto names = failing(run);
    const bool is_found =
        std::find(names.begin(), names.end(), "collectives.have_one_order") != names.end();
    EXPECT_EQ(is_found, !is_known);
  }
}

TEST(Joins, ThatOneRankDidNotEndAreLeftAsTheyAre) {
  auto run = uneven_run();
  run.ranks[0].joins[0].has_ended = false;
  EXPECT_FALSE(with_joins_aligned(run));
  EXPECT_NE(failing(run), std::vector<std::string>());
}

// Rank 0 has a backward more in the join, of which no update came.
TEST(Joins, MayLeaveGradientsOverOnSomeRanks) {
  auto run = right_run();
  for (auto& rank : run.ranks) {
    auto& records = rank.records;
    const auto second_epoch = std::find_if(records.begin(), records.end(), [](const Record& each) {
      const auto* fact = std::get_if<Fact>(&each.what);
      return fact && fact->whole("epoch") == 1;
    });
    auto number = static_cast<size_t>(second_epoch - records.begin());
    if (rank.number == 0) {
      records.insert(second_epoch, {{2, "backward"}, digests("gradients", {{50, 1}, {50, 1}})});
      records.insert(
          records.begin() + static_cast<std::ptrdiff_t>(number),
          {{2, "backward"}, Fact{"backward", {{"model", "model 0"}, {"kind", "local"}}}});
      number += 2;
    }
    rank.joins = {{.to_step = 2, .to_event = 4, .to_record = number, .has_ended = true}};
  }
  EXPECT_EQ(failing(run), std::vector<std::string>());
  for (auto& rank : run.ranks) rank.joins.clear();
  EXPECT_NE(failing(run), std::vector<std::string>());
}

TEST(Joins, OfEqualLengthChangeNothing) {
  auto run = right_run();
  for (auto& rank : run.ranks) rank.joins = {{.to_step = 2, .to_event = 4, .has_ended = true}};
  EXPECT_FALSE(with_joins_aligned(run));
}

TEST(Joins, HideNoMistakeThatComesAfterThem) {
  auto run = uneven_run();
  auto& records = run.ranks[1].records;
  const auto last = std::find_if(records.rbegin(), records.rend(), [](const Record& each) {
    return digests_in(each, "parameters") != nullptr;
  });
  std::get<Digests>(last->what).values[0].bits = 99;
  const auto result = judged(run).results;
  const auto parameters = std::find_if(result.begin(), result.end(), [](const auto& each) {
    return each.scenario == "parameters.are_the_same";
  });
  ASSERT_EQ(parameters->kind, Result::Kind::fail);
  EXPECT_EQ(parameters->worst.findings.front().where, "step 3, update, w0");
}

TEST(Joins, HideNoUpdateThatIsMissingAfterThem) {
  auto run = uneven_run();
  auto& rank = run.ranks[1];
  std::erase_if(rank.records,
                [](const Record& each) { return each.at.step == 2 && each.at.phase == "update"; });
  const auto names = failing(run);
  EXPECT_NE(std::find(names.begin(), names.end(), "run.has_one_length"), names.end());
}

TEST(Joins, HideNoCollectiveOfStepsThatAllRanksMade) {
  auto run = uneven_run();
  std::get<Collective>(run.ranks[1].history.events[0].what).op = "barrier";
  EXPECT_EQ(failing(run).front(), "collectives.have_one_order");
}

TEST(Joins, OfStepsAtTheEndOfTheirTypeOverflowNothing) {
  auto run = uneven_run();
  constexpr int kMost = std::numeric_limits<int>::max();
  run.ranks[0].joins[0].to_step = kMost;
  run.ranks[1].records.back().at.step = kMost;
  EXPECT_EQ(with_joins_aligned(run)->ranks[1].records.back().at.step, kMost);
}

}  // namespace
}  // namespace lockstep::recorded
