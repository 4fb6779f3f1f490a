// Checks which optimizers count as averaged between their updates.
#include "harness/invariants/local_updates.h"

#include "harness/invariants/canaries/right_run.h"
#include "harness/invariants/habits/local_rounds.h"
#include "harness/invariants/habits/scaled_averages.h"

#include <gtest/gtest.h>

#include <array>

namespace lockstep::recorded {
namespace {

// Rank by rank an optimizer updates in step 0, and another one with the same tensors from step 1
// on.
RecordedRun run_of_two_optimizers(bool begins_equal) {
  auto run = right_run();
  for (auto& rank : run.ranks) {
    rank.history.events.clear();
    for (auto& record : rank.records) {
      auto* is = std::get_if<Digests>(&record.what);
      if (!is || (is->list->role != "parameters" && is->list->role != "gradients")) continue;
      const bool is_first = record.at.step == 0;
      auto list = *is->list;
      list.of = is_first ? "optimizer 0" : "optimizer 1";
      is->list = std::make_shared<const TensorList>(list);
      const bool begins = record.at.step == 1 && list.role == "parameters";
      if (begins) record.at.phase = "construction";
      if (record.at.phase == "construction" ? begins && !begins_equal : true)
        is->values[0].bits += static_cast<uint64_t>(rank.number);
    }
  }
  return run;
}

TEST(LocalUpdates, WhoseOptimizerIsMadeAnewBeginWithAnAverageThatSomethingSent) {
  for (const bool sends : {false, true})
    for (const bool begins_equal : {false, true}) {
      auto run = run_of_two_optimizers(begins_equal);
      for (auto& rank : run.ranks)
        if (sends)
          rank.history.events.push_back(
              {{0, "update"}, Collective{.op = "allreduce", .group = "world", .elements = 1000}});
      // Two folds that begin from one seed are equal too, and nothing averaged the first.
      EXPECT_EQ(averaged_between_updates(run).size(), sends && begins_equal ? 2u : 0u)
          << sends << begins_equal;
    }
}

// Ranks that update on their own and hold the same before the next forward: each tensor as many
// times what they had as `growths` say, behind each update.
RecordedRun run_of_averages(const std::vector<std::array<double, 2>>& growths) {
  auto run = right_run();
  for (auto& rank : run.ranks) {
    for (int step = 0; step < kSteps; ++step) {
      const auto of = uint64_t(10 * step + rank.number);
      nth<Digests>(rank, step, "gradients").values[0].bits = of;
      nth<Digests>(rank, step + 1, "parameters").values = {{of, 1}, {of, 1}};
    }
    for (int step = 1; step < kSteps; ++step) {
      const auto& growth = growths[size_t(step - 1) % growths.size()];
      const auto both = uint64_t(100 + step);
      rank.records.push_back(
          {{step, "forward"}, digests("parameters", {{both, growth[0]}, {both, growth[1]}})});
    }
  }
  return run;
}

std::string pattern_of(const std::vector<std::array<double, 2>>& growths) {
  const auto found = scaled_average(run_of_averages(growths));
  return found ? found->finding.pattern : "";
}

TEST(LocalUpdates, AreNotAveragedBySums) {
  EXPECT_EQ(pattern_of({{2, 2}}), "sum_not_average");
  EXPECT_EQ(pattern_of({{2.1, 1.7}}), "sum_not_average");
  EXPECT_EQ(pattern_of({{0.5, 0.5}}), "divided_twice");
  EXPECT_EQ(pattern_of({{1, 1}}), "");
  EXPECT_EQ(pattern_of({{0.707, 0.707}}), "");        // of ranks that began independently
  EXPECT_EQ(pattern_of({{2.6, 1}}), "");              // an outer optimizer moved one tensor far
  EXPECT_EQ(pattern_of({{2.3, 1.7}, {1.1, 1}}), "");  // and not each time
  EXPECT_EQ(pattern_of({{2, 2}, {1.1, 1}}), "sum_not_average");  // of each tensor, once
  EXPECT_EQ(pattern_of({{1, 1}, {2, 2}, {2, 2}}), "sum_not_average");
  EXPECT_EQ(pattern_of({{1.3, 1.3}}), "");
  const auto run = run_of_averages({{2, 2}});
  EXPECT_EQ(parameters_are_the_same(run).findings.at(0).where, "step 1, forward");
  EXPECT_EQ(parameters_are_the_same(run_of_averages({{1, 1}})).findings.size(), 0u);
}

TEST(LocalUpdates, AreAveragedSoonForAsLongAsTheyWereApartBefore) {
  for (const int averaged_in : {1, 2}) {
    auto run = run_of_averages({{1, 1}});
    for (auto& rank : run.ranks)
      std::erase_if(rank.records, [&](const Record& record) {
        return digests_in(record, "parameters") && record.at.phase == "forward" &&
               record.at.step != averaged_in;
      });
    const auto rows = rows_of(run, "parameters");
    EXPECT_EQ(is_averaged_soon(rows, rows.size() - 1), averaged_in == 2);
  }
}

// Ranks without a wrapper that average their parameters behind rounds of so many updates each.
RecordedRun run_of_rounds(const std::vector<std::vector<int>>& updates_by_rank) {
  RecordedRun run;
  for (const auto& updates : updates_by_rank) {
    const auto number = run.ranks.size();
    Rank rank{.is_there = true, .number = int(number), .world = int(updates_by_rank.size())};
    const auto add = [&](const Moment& at, const char* role, uint64_t bits) {
      auto is = digests(role, {{bits, 1}});
      auto list = *is.list;
      list.of = "optimizer 0";
      is.list = std::make_shared<const TensorList>(std::move(list));
      rank.records.push_back({at, std::move(is)});
    };
    int step = 0;
    for (size_t round = 0; round < updates.size(); ++round) {
      for (const int end = step + updates[round]; step < end; ++step) {
        const Moment at{step, "update"};
        const auto own = 10 * uint64_t(step) + number;
        add(at, "gradients", own);
        rank.records.push_back({at, Fact{"optimizer 0", {{"foreign", 1}}}});
        add(at, "parameters", own);
      }
      rank.history.events.push_back(
          {{step - 1, "update"}, Collective{.op = "allreduce", .group = "world", .elements = 2}});
      add({step, "forward"}, "parameters", 100 + round);
    }
    rank.history.last = {step - 1, "update"};
    run.ranks.push_back(std::move(rank));
  }
  return run;
}

TEST(LocalUpdates, OfUnlikeRoundsAreNumberedAlike) {
  const auto view = with_rounds_aligned(run_of_rounds({{2, 2}, {1, 1}}));
  ASSERT_TRUE(view);
  for (const auto& rank : view->run.ranks)
    for (int round = 0; round < 2; ++round)
      EXPECT_EQ(rank.history.events.at(size_t(round)).at, (Moment{round, "update"}));
  EXPECT_NE(view->remarks.at(0).diagnosis.find("at most: rank 0 has 2, rank 1 has 1"),
            std::string::npos);
  EXPECT_NE(view->remarks.at(0).diagnosis.find("without the 2 updates"), std::string::npos);
  EXPECT_FALSE(with_rounds_aligned(run_of_rounds({{1, 1}, {1, 1}})));
  EXPECT_FALSE(with_rounds_aligned(run_of_rounds({{1, 1, 1}, {1, 1, 0}}))) << "one without updates";
}

TEST(LocalUpdates, AreAveragedInGroupsWhoseRanksAllHoldTheSame) {
  for (const bool agrees : {true, false})
    for (const bool sends : {true, false}) {
      auto run = right_run(4);
      Row row{.at = {1, "forward"}, .of = "model 0"};
      std::vector<Digests> held;
      for (const auto& rank : run.ranks)
        held.push_back(digests("parameters", {{uint64_t(rank.number / 2), 1}, {3, 1}}));
      if (!agrees) held[3].values[1].bits = 4;
      for (auto& rank : run.ranks) {
        row.by_rank.push_back(&held[size_t(rank.number)]);
        if (sends || rank.number != 1)
          rank.history.events.push_back(
              {{0, "update"},
               Collective{.op = "allreduce",
                          .group = rank.number < 2 ? "ranks 0,1" : "ranks 2,3",
                          .elements = 4}});
      }
      EXPECT_EQ(averaged_in_groups(run, row), agrees && sends) << agrees << sends;
    }
}

}  // namespace
}  // namespace lockstep::recorded
