// One mistake is one failure, in a story that says where; what is customary is a remark.
#include "harness/invariants/canaries/right_run.h"
#include "harness/invariants/judge_run.h"
#include "reports/findings/text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

namespace lockstep::recorded {
namespace {

const Result& result_named(const Run& run, const std::string& name) {
  for (const auto& result : run.results)
    if (result.scenario == name) return result;
  throw std::logic_error("no such result: " + name);
}

TEST(OneCause, NameARankThatSkipsAnUpdateFirstAndFoldTheRestUnderIt) {
  auto run = right_run();
  std::erase_if(run.ranks[1].records, [](const Record& record) {
    return record.at.step == 1 && record.at.phase == "update";
  });
  for (int n = 2; n < kSteps; ++n) nth<Digests>(run.ranks[1], n, "gradients").values[0].bits = 99;
  const auto results = judged(run);
  const auto& cause = result_named(results, "run.has_one_length");
  ASSERT_EQ(cause.kind, Result::Kind::fail);
  EXPECT_EQ(cause.worst.findings.front().pattern, "skipped_update");
  EXPECT_NE(reports::text_of(cause.worst.findings.front()).find("\nwhat follows from it:"),
            std::string::npos);
  EXPECT_EQ(result_named(results, "gradients.are_the_same").kind, Result::Kind::skip);
  EXPECT_EQ(std::count_if(results.results.begin(), results.results.end(),
                          [](const Result& result) { return is_failure(result.kind); }),
            1);
}

TEST(OneCause, NameTheScalerThatSkippedAnUpdate) {
  for (const bool says : {true, false}) {
    auto run = right_run();
    std::erase_if(run.ranks[1].records, [](const Record& record) {
      return record.at.step == 1 && record.at.phase == "update";
    });
    if (says)
      run.ranks[1].records.push_back(
          {{1, "update"}, Fact{"skipped", {{"by", "GradScaler"}, {"optimizer", "optimizer 0"}}}});
    const auto found = ranks_make_the_same_steps(run).findings.at(0);
    EXPECT_EQ(found.pattern, "skipped_update");
    const auto text = reports::text_of(found);
    EXPECT_EQ(text.find("cause: GradScaler skipped the update of optimizer 0 on rank 1") !=
                  std::string::npos,
              says)
        << text;
  }
}

// Rank 1 returns, and rank 0 waits in a forward or a backward, though both got the same batches.
TEST(OneCause, NameWhyARankStoppedThatGotAsManyBatches) {
  const auto text_of_run = [](const char* op, const std::vector<size_t>& leave_out = {}) {
    auto run = right_run();
    for (auto& rank : run.ranks) rank.history.ending.kind = Ending::Kind::returned;
    auto& events = run.ranks[0].history.events;
    events.push_back({{kSteps, "forward"}, Collective{.op = op, .group = "world"}});
    run.ranks[0].history.ending = {Ending::Kind::threw, "Connection closed by peer"};
    run.ranks[0].history.last = {kSteps, "forward"};
    for (const auto rank : leave_out)
      std::erase_if(run.ranks[rank].records, [](const Record& record) {
        const auto* fact = std::get_if<Fact>(&record.what);
        const bool is_backward = fact && fact->name == "backward";
        return record.at.step == kSteps - 1 && (is_backward || record.at.phase == "update");
      });
    return reports::text_of(ranks_make_the_same_steps(run).findings.at(0));
  };
  const auto has = [](const std::string& text, const char* words) {
    return text.find(words) != std::string::npos;
  };
  EXPECT_TRUE(has(text_of_run("ddp_buffers"), "evaluate with ddp.module there"));
  EXPECT_FALSE(has(text_of_run("ddp_backward"), "cause:"));
  EXPECT_TRUE(has(text_of_run("ddp_buffers", {1}), "rank 1 got 4 batches and made 3 backwards"));
  EXPECT_TRUE(has(text_of_run("ddp_buffers", {0, 1}), "evaluate with ddp.module there"))
      << "all have a backward for several batches";
}

TEST(OneCause, SayTheirPlaceInTheText) {
  auto run = right_run();
  nth<Digests>(run.ranks[1], 2, "gradients").values[1].bits = 77;
  const auto run_of = judged(run);
  const auto& finding = result_named(run_of, "gradients.are_the_same").worst.findings.front();
  EXPECT_NE(reports::text_of(finding).find("\nfirst at: step 2, backward, w1"), std::string::npos)
      << reports::text_of(finding);
}

TEST(OneCause, NameTheBuffersThatASecondForwardChanged) {
  auto run = right_run();
  for (auto& rank : run.ranks) {
    rank.history.ending = {Ending::Kind::threw,
                           "modified by an inplace operation: [torch.FloatTensor [2]] is at "
                           "version 4; expected version 3 instead."};
    rank.history.events.push_back({{0, "forward"}, Collective{.op = "ddp_buffers", .done = true}});
  }
  const auto text = reports::text_of(ranks_record_whole_run(run).findings.at(0));
  EXPECT_NE(text.find("second forward of model 0 broadcasts its buffers (w0 among them)"),
            std::string::npos)
      << text;
}

// Rank 0 alone reduces its loss. Rank 1 waits for it in what its next forward sends, which no
// recorder of Python sees, and both give up.
TEST(OneCause, BlameNoRankThatGaveUpWaitingForTheCollectivesThatItLacks) {
  auto run = right_run();
  for (auto& rank : run.ranks) {
    rank.history.ending = {Ending::Kind::threw, "Timed out waiting 6000ms for recv operation"};
    rank.history.last = {kSteps, "update"};
  }
  run.ranks[0].history.events.push_back(
      {{kSteps, "update"},
       Collective{.op = "allreduce", .group = "world", .sequence = 2 * kSteps, .elements = 1}});
  const auto results = judged(run);
  const auto& cause = result_named(results, "collectives.have_one_order");
  ASSERT_EQ(cause.kind, Result::Kind::fail);
  EXPECT_EQ(cause.worst.findings.front().pattern, "missing_collective");
  EXPECT_EQ(result_named(results, "run.is_recorded_whole").kind, Result::Kind::skip);
  run.ranks[1].history.ending.why = "a bad sample";
  EXPECT_TRUE(collectives_have_one_order(run).findings.empty());
}

TEST(OneCause, NameCollectivesThatDifferBeforeTheRankThatEndedInThem) {
  auto run = right_run();
  for (int rank = 0; rank < 2; ++rank) {
    auto& history = run.ranks[static_cast<size_t>(rank)].history;
    history.last = {kSteps - 1 + rank, "backward"};
    history.events.push_back(
        {history.last, Collective{.op = rank == 0 ? "allreduce" : "ddp_backward",
                                  .group = "world",
                                  .sequence = 2 * kSteps,
                                  .elements = rank == 0 ? 1 : 49}});
    history.ending = rank == 0 ? Ending{Ending::Kind::cut_off, ""}
                               : Ending{Ending::Kind::threw, "Connection reset by peer"};
  }
  const auto results = judged(run);
  const auto& cause = result_named(results, "collectives.have_one_order");
  ASSERT_EQ(cause.kind, Result::Kind::fail);
  EXPECT_EQ(cause.worst.findings.front().pattern, "mismatched_collectives");
  EXPECT_EQ(result_named(results, "run.is_recorded_whole").kind, Result::Kind::skip);
}

TEST(OneCause, ShowNoDigestUnderNormAlone) {
  auto run = right_run();
  nth<Digests>(run.ranks[1], 2, "gradients").values[1].bits = 77;
  const auto text = reports::text_of(gradients_are_the_same(run).findings.at(0));
  EXPECT_NE(text.find("1 (bits 0000004d)"), std::string::npos) << text;
}

TEST(OneCause, HaveTheHistoryOfANaNInTheOrderOfThePhases) {
  auto run = right_run();
  const auto nan = std::numeric_limits<double>::quiet_NaN();
  nth<Digests>(run.ranks[0], 2, "buffers").values[0].norm = nan;    // step 2, forward
  nth<Digests>(run.ranks[0], 2, "gradients").values[0].norm = nan;  // step 2, backward
  const auto text = reports::text_of(values_stay_finite(run).findings.at(0));
  EXPECT_NE(text.find("step 2, forward"), std::string::npos);
  EXPECT_EQ(text.find("before that"), std::string::npos) << text;
}

TEST(OneCause, SayThatTheProgramWroteWhatNoUpdateDid) {
  for (const bool is_of_the_update : {false, true}) {
    auto run = right_run();
    for (auto& rank : run.ranks) {
      const auto update =
          std::find_if(rank.records.begin(), rank.records.end(), [](const Record& record) {
            const auto* digests = digests_in(record, "parameters");
            return digests && record.at.phase == "update";
          });
      auto written = std::get<Digests>(update->what);
      written.values[0].norm = std::numeric_limits<double>::quiet_NaN();
      if (is_of_the_update) update->what = written;
      rank.records.insert(update + 1, Record{{1, "forward"}, written});
    }
    const auto text = reports::text_of(values_stay_finite(run).findings.at(0));
    EXPECT_EQ(text.find("cause: no update did it") == std::string::npos, is_of_the_update) << text;
  }
}

TEST(OneCause, IgnoreWhatAModelHeldBeforeItsValuesCame) {
  auto run = right_run();
  nth<Digests>(run.ranks[0], 0, "parameters").values[0].norm =
      std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(values_stay_finite(run).findings.empty());
  nth<Digests>(run.ranks[0], 1, "parameters").values[0].norm =
      std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(values_stay_finite(run).findings.size(), 1u);
}

TEST(OneCause, AllowByName) {
  auto run = right_run();
  nth<Digests>(run.ranks[1], 2, "gradients").values[1].bits = 77;
  const Allowances allowed{.invariants = {"gradients.are_the_same"}};
  const auto results = judged(run, nullptr, allowed);
  EXPECT_EQ(result_named(results, "gradients.are_the_same").kind, Result::Kind::pass);
  EXPECT_EQ(result_named(results, "gradients.are_the_same").remarks.size(), 1u);
  EXPECT_THROW(check_invariant_name("gradients.are_the_sane", "--allow"), FieldError);
}

TEST(OneCause, CallOneSeedForDropoutARemarkThatFailsAStrictJudgement) {
  auto run = right_run();
  for (auto& rank : run.ranks)
    for (int step = 0; step < kSteps; ++step)
      nth<Digests>(rank, step, "random").values[0].bits = uint64_t(step);
  EXPECT_EQ(result_named(judged(run), "random.streams_differ").kind, Result::Kind::pass);
  EXPECT_EQ(result_named(judged(run, nullptr, {.is_strict = true}), "random.streams_differ").kind,
            Result::Kind::fail);
}

// A remark fails in a strict judgement, and is no reason of what is wrong.
TEST(OneCause, LetARemarkThatFailsCauseNothing) {
  auto run = right_run();
  for (auto& rank : run.ranks)
    rank.records.insert(rank.records.begin() + 1,
                        {{0, "construction"}, Fact{"not recorded", {{"what", "w"}, {"why", "y"}}}});
  nth<Digests>(run.ranks[1], 2, "gradients").values[1].bits = 77;
  const auto results = judged(run, nullptr, {.is_strict = true});
  EXPECT_EQ(result_named(results, "run.is_recorded_whole").kind, Result::Kind::fail);
  EXPECT_EQ(result_named(results, "gradients.are_the_same").kind, Result::Kind::fail);
}

// LBFGS, say, whose line searches take other numbers of steps once parameters differ.
TEST(OneCause, FoldOtherStepsUnderTheParametersThatDifferedBefore) {
  for (const int differs_at : {1, 3}) {
    auto run = right_run();
    for (int n = differs_at; n <= kSteps; ++n)
      nth<Digests>(run.ranks[1], n, "parameters").values[0].bits += 90;
    std::erase_if(run.ranks[1].records, [](const Record& record) {
      return record.at.step == 1 && record.at.phase == "update" &&
             std::holds_alternative<Fact>(record.what);
    });
    const auto results = judged(run);
    const bool is_first = differs_at == 1;
    EXPECT_EQ(result_named(results, "parameters.are_the_same").kind,
              is_first ? Result::Kind::fail : Result::Kind::skip);
    EXPECT_EQ(result_named(results, "run.has_one_length").kind,
              is_first ? Result::Kind::skip : Result::Kind::fail);
  }
}

TEST(OneCause, NameTheStateWhereAnUpdateTookTheSameGradients) {
  for (const bool same_gradients : {true, false}) {
    auto run = right_run();
    auto& rank = run.ranks[1];
    for (int n = 2; n < kSteps; ++n) nth<Digests>(rank, n, "state").values[0].bits += 90;
    for (int n = 3; n <= kSteps; ++n) nth<Digests>(rank, n, "parameters").values[0].bits += 90;
    if (!same_gradients)  // within no_sync, say
      for (auto& each : run.ranks) {
        nth<Fact>(each, 2, "backward").values["kind"] = "unknown";
        nth<Digests>(each, 2, "gradients").values[0].bits += static_cast<uint64_t>(each.number);
      }
    const auto results = judged(run);
    const auto* const cause =
        same_gradients ? "optimizer.has_one_state" : "parameters.are_the_same";
    EXPECT_EQ(result_named(results, cause).kind, Result::Kind::fail) << same_gradients;
    EXPECT_EQ(std::count_if(results.results.begin(), results.results.end(),
                            [](const Result& result) { return is_failure(result.kind); }),
              1);
  }
}

TEST(OneCause, FoldGradientsThatDistributedDataParallelCouldNotAverageUnderItsException) {
  auto run = right_run();
  for (auto& rank : run.ranks) {
    std::erase_if(rank.records, [](const Record& record) { return record.at.step > 1; });
    const auto own = static_cast<uint64_t>(rank.number);
    nth<Digests>(rank, 1, "gradients").values[0].bits += own;
    nth<Digests>(rank, 2, "parameters").values[0].bits += own;
    rank.history.ending = {Ending::Kind::threw,
                           "RuntimeError: Expected to have finished reduction in the prior "
                           "iteration before starting a new one."};
    rank.history.last = {2, "forward"};
  }
  const auto results = judged(run);
  EXPECT_EQ(result_named(results, "run.is_recorded_whole").kind, Result::Kind::fail);
  EXPECT_EQ(result_named(results, "gradients.are_the_same").kind, Result::Kind::skip);
}

TEST(OneCause, NameTheCollectiveThatARankIssuedFirstWhereBothGaveUpWaiting) {
  auto run = right_run();
  const auto add = [&](int rank, const Moment& at, const char* op) {
    auto& history = run.ranks[static_cast<size_t>(rank)].history;
    history.events.push_back(
        {at, Collective{.op = op, .group = "world", .sequence = 2 * kSteps, .elements = 1}});
    history.ending = {Ending::Kind::threw, "Timed out waiting 8000ms for recv operation"};
    history.ending.at.ns = 2 - rank;
    history.last = at;
  };
  add(0, {kSteps, "backward"}, "ddp_backward");
  add(1, {kSteps - 1, "update"}, "barrier");
  const auto results = judged(run);
  EXPECT_EQ(result_named(results, "collectives.have_one_order").kind, Result::Kind::fail);
  EXPECT_EQ(result_named(results, "run.is_recorded_whole").kind, Result::Kind::skip);
}

}  // namespace
}  // namespace lockstep::recorded
