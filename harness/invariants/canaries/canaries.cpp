#include "harness/invariants/canaries/canaries.h"

#include "harness/invariants/canaries/descent.h"
#include "harness/invariants/canaries/right_run.h"
#include "harness/invariants/judge_run.h"
#include "harness/invariants/resumed.h"

#include <algorithm>
#include <limits>

namespace lockstep::recorded {

const std::vector<Canary>& canaries() {
  static const auto kAll = [] {
    const auto first = [](auto change) {
      return [change](RecordedRun& run) { change(run.ranks[1]); };
    };
    const auto each = [](auto change) {
      return
          [change](RecordedRun& run) { std::for_each(run.ranks.begin(), run.ranks.end(), change); };
    };
    const auto ends = [&](const Ending& ending) {
      return first([ending](Rank& rank) { rank.history.ending = ending; });
    };
    return std::vector<Canary>{
        {"run.is_recorded_whole", "threw", ends({Ending::Kind::threw, "no"})},
        {"run.is_recorded_whole", "exited", ends({Ending::Kind::exited, "3"})},
        {"run.is_recorded_whole", "signalled", ends({Ending::Kind::signalled, "SIGSEGV"})},
        {"run.is_recorded_whole", "stuck", ends({Ending::Kind::stuck, ""})},
        {"run.is_recorded_whole", "overflowed", ends({Ending::Kind::overflowed, ""})},
        {"run.is_recorded_whole", "cut_off", ends({Ending::Kind::cut_off, ""})},
        {"run.is_recorded_whole", "vacuous",
         [](RecordedRun& run) {
           for (auto& rank : run.ranks) rank.records.resize(1);
         }},
        {"run.is_recorded_whole", "not_recorded", first([](Rank& rank) {
           rank.records.push_back({{}, Fact{"not recorded", {{"what", "a"}, {"because", "b"}}}});
         })},
        {"run.is_recorded_whole", "lost",
         [](RecordedRun& run) {
           run.ranks[1].history.ending = {Ending::Kind::cut_off, ""};
           run.ranks[0].history.ending = {Ending::Kind::threw, "connection closed"};
           std::get<Collective>(run.ranks[0].history.events.back().what).done = false;
         }},
        {"run.is_recorded_whole", "trains_alone", first([](Rank& rank) {
           nth<Fact>(rank, 0, "process group").values = {{"rank", 0}, {"world", 1}};
         })},
        {"run.has_one_length", "stopped_early",
         first([](Rank& rank) { rank.records.resize(rank.records.size() - 4); })},
        {"run.has_one_length", "skipped_update", first([](Rank& rank) {
           std::erase_if(rank.records, [](const Record& is) {
             return is.at.step == 1 && std::holds_alternative<Fact>(is.what) &&
                    std::get<Fact>(is.what).name == "optimizer 0";
           });
         })},
        {"collectives.have_one_order", "mismatched_collectives", first([](Rank& rank) {
           std::get<Collective>(rank.history.events[2].what).op = "barrier";
         })},
        {"collectives.have_one_order", "missing_collective",
         first([](Rank& rank) { rank.history.events.pop_back(); })},
        {"collectives.have_one_order", "no_collective",
         [](RecordedRun& run) {
           for (auto& rank : run.ranks) rank.history.events.clear();
         }},
        {"data.is_one_dataset", "other_length",
         first([](Rank& rank) { nth<Fact>(rank, 0, "loader 0").values["length"] = 20; })},
        {"data.is_one_dataset", "other_content", each([](Rank& rank) {
           nth<Fact>(rank, 0, "loader 0").values["fingerprint"] = std::to_string(rank.number);
         })},
        {"data.is_one_dataset", "split_differently",
         first([](Rank& rank) { nth<Fact>(rank, 0, "loader 0").values["seed"] = 1; })},
        {"data.is_partitioned", "not_a_partition",
         first([](Rank& rank) { nth<Drawn>(rank, 1, "loader 0").indices[0] = 0; })},
        {"data.is_partitioned", "out_of_range",
         first([](Rank& rank) { nth<Drawn>(rank, 1, "loader 0").indices[0] = kLength; })},
        {"data.is_partitioned", "every_rank_draws_all", each([](Rank& rank) {
           for (int pass = 0; pass < 2; ++pass) {
             auto& values = nth<Fact>(rank, pass, "loader 0").values;
             values.erase("replicas");
             values["fingerprint"] = "f";
             for (int64_t i = 0; i < kLength; ++i)
               nth<Drawn>(rank, 2 * pass, "loader 0").indices.push_back(i);
           }
         })},
        {"data.is_partitioned", "same_losses", each([](Rank& rank) {
           std::erase_if(rank.records,
                         [](const Record& is) { return is.at.phase == phase::kData; });
           for (int step = 0; step < kSteps; ++step)
             nth<Fact>(rank, step, "backward").values["loss"] = 0.5 + step;
         })},
        {"data.order_changes", "epoch_ignored", each([](Rank& rank) {
           for (int step = 0; step < 2; ++step)
             nth<Drawn>(rank, 2 + step, "loader 0") = nth<Drawn>(rank, step, "loader 0");
         })},
        {"data.evaluates_each_sample_once", "evaluation_padded",
         first([](Rank& rank) { nth<Drawn>(rank, 0, "loader 1").indices.push_back(0); })},
        {"random.streams_differ", "same_random_stream", each([](Rank& rank) {
           for (int step = 0; step < kSteps; ++step)
             nth<Digests>(rank, step, "random").values[0].bits = uint64_t(step);
         })},
        {"optimizer.has_one_setting", "other_groups", each([](Rank& rank) {
           nth<Fact>(rank, 0, "optimizer 0").values["sizes"] =
               Json::array({rank.number, 2 - rank.number});
         })},
        {"random.streams_differ", "restarted_stream", first([](Rank& rank) {
           for (int step = 0; step < kSteps; ++step) {
             nth<Digests>(rank, step, "random").values[0].bits = 5;
             nth<Fact>(rank, step, "backward").values["drew"] = true;
           }
         })},
        {"forward.runs_through_the_wrapper", "other_layers", first([](Rank& rank) {
           nth<Fact>(rank, 0, "model 0").values["layers"] = {{"SyncBatchNorm", 1}};
         })},
        {"forward.runs_through_the_wrapper", "bare_forward", first([](Rank& rank) {
           nth<Fact>(rank, 1, "backward").values["kind"] = "bare";
           nth<Digests>(rank, 1, "gradients").values[0].bits = 77;
         })},
        {"forward.runs_through_the_wrapper", "backward_again", first([](Rank& rank) {
           nth<Fact>(rank, 1, "backward").values["kind"] = "again";
           nth<Digests>(rank, 1, "gradients").values[0].bits = 77;
         })},
        {"forward.runs_through_the_wrapper", "other_mode", each([](Rank& rank) {
           nth<Fact>(rank, 1, "backward").values["training"] = rank.number == 0;
         })},
        {"forward.runs_through_the_wrapper", "group_of_one", each([](Rank& rank) {
           auto& values = nth<Fact>(rank, 0, "model 0").values;
           values["wrapper"] = "DistributedDataParallel";
           values["ranks"] = {rank.number};
         })},
        {"forward.runs_through_the_wrapper", "update_not_averaged", first([](Rank& rank) {
           nth<Fact>(rank, 0, "model 0").values["wrapped"] = true;
           nth<Fact>(rank, 2, "backward").values["kind"] = "local";
         })},
        {"forward.runs_through_the_wrapper", "update_not_averaged",
         first([](Rank& rank) { nth<Fact>(rank, 3, "backward").values["kind"] = "no_sync"; })},
        {"gradients.are_the_same", "no_two_ranks_agree",
         first([](Rank& rank) { nth<Digests>(rank, 2, "gradients").values[1].bits = 77; })},
        {"gradients.are_the_same", "synchronised_on_some_ranks",
         first([](Rank& rank) { nth<Fact>(rank, 1, "backward").values["kind"] = "no_sync"; })},
        {"gradients.are_averages", "sum_not_average", each([](Rank& rank) {
           const auto own = Json::array({0.5 + rank.number, 1.5, 2.0});
           for (const auto& [name, values] :
                {std::pair{"own gradients", own},
                 std::pair{"averaged gradients", Json::array({2.0, 3.0, 4.0})}})
             rank.records.push_back(
                 {{0, "backward"}, Fact{name, {{"of", "model 0"}, {"tensors", {{"w0", values}}}}}});
         })},
        {"gradients.are_averages", "average_of_averages",
         [](RecordedRun& run) {
           for (int step = 0; step < kSteps; ++step)
             nth<Fact>(run.ranks[1], step, "terms").values["terms"] = 3;
         }},
        {"gradients.are_averages", "clipped_while_scaled", first([](Rank& rank) {
           rank.records.push_back(
               {{0, "backward"}, Fact{"clip", {{"scale", 65536.0}, {"most", 1.0}, {"norm", 9e5}}}});
         })},
        {"gradients.are_averages", "not_waited", first([](Rank& rank) {
           rank.records.push_back({{0, "update"}, Fact{"unwaited", {{"gradients", 2}}}});
         })},
        {"gradients.differ_in_no_sync", "same_data",
         [](RecordedRun& run) {
           for (auto& rank : run.ranks) nth<Fact>(rank, 1, "backward").values["kind"] = "no_sync";
         }},
        {"gradients.reach_every_parameter", "never_a_gradient", each([](Rank& rank) {
           for (int step = 0; step < kSteps; ++step)
             nth<Digests>(rank, step, "gradients").values[1] = {0, -1};
         })},
        {"optimizer.owns_parameters_once", "two_optimizers",
         first([](Rank& rank) { nth<Fact>(rank, 1, "optimizer 0").name = "optimizer 1"; })},
        {"optimizer.owns_parameters_once", "in_no_optimizer", each([](Rank& rank) {
           for (int step = 0; step < kSteps; ++step)
             nth<Fact>(rank, step, "optimizer 0").values["owned"].erase(1);
         })},
        {"optimizer.owns_parameters_once", "steps_other_tensors", each([](Rank& rank) {
           for (int step = 0; step < kSteps; ++step) {
             auto& values = nth<Fact>(rank, step, "optimizer 0").values;
             values["owned"] = Json::array();
             values["foreign"] = 2;
           }
         })},
        {"optimizer.has_one_setting", "no_two_ranks_agree", first([](Rank& rank) {
           nth<Fact>(rank, 2, "optimizer 0").values["groups"][0]["lr"] = 0.25;
         })},
        {"optimizer.has_one_state", "no_two_ranks_agree", first([](Rank& rank) {
           nth<Digests>(rank, 3, "state").values[0] = {99, 2};
         })},
        {"parameters.are_the_same", "no_two_ranks_agree",
         first([](Rank& rank) { nth<Digests>(rank, 0, "parameters").values[0].bits = 99; })},
        {"parameters.are_the_same", "other_shape", first([](Rank& rank) {
           nth<Digests>(rank, 2, "parameters") = digests("parameters", {{12, 1}});
         })},
        {"parameters.are_the_same", "changed_on_some_ranks", first([](Rank& rank) {
           rank.records.push_back({{1, "forward"}, digests("parameters", {{5, 1}, {5, 1}})});
           nth<Digests>(rank, 2, "parameters").values[0] = {6, 1};  // the update starts from them
         })},
        {"parameters.are_the_same", "update_lost", each([](Rank& rank) {
           nth<Digests>(rank, 0, "parameters").values[1].bits = 3;  // that no update keeps
           for (int step = 0; step < kSteps; ++step) {
             auto& updated = nth<Digests>(rank, step + 1, "parameters");
             const auto sent = updated;
             if (rank.number == 1) updated.values[1].bits = 70;
             rank.records.push_back({{step + 1, "forward"}, sent});
           }
         })},
        {"parameters.are_the_same", "sum_not_average", each([](Rank& rank) {
           for (int step = 0; step < kSteps; ++step) {
             const auto of = uint64_t(10 * step + rank.number);
             nth<Digests>(rank, step, "gradients").values[0].bits = of;
             nth<Digests>(rank, step + 1, "parameters").values = {{of, 1}, {of, 1}};
             const auto both = uint64_t(20 + step);
             rank.records.push_back(
                 {{step + 1, "forward"}, digests("parameters", {{both, 2}, {both, 2}})});
           }
         })},
        {"buffers.follow_rank_zero", "no_two_ranks_agree",
         first([](Rank& rank) { nth<Digests>(rank, 1, "buffers").values[0].bits = 99; })},
        {"values.stay_finite", "one_rank_not_finite", first([](Rank& rank) {
           nth<Digests>(rank, 1, "parameters").values[0].norm =
               std::numeric_limits<double>::quiet_NaN();
         })},
    };
  }();
  return kAll;
}

namespace {

// A canary that is judged beside another run.
struct CanaryBeside {
  const char *invariant, *pattern;
  Judgement judgement;
};

// Ranks of which one drew other batches than one process, ranks that summed their gradients, and a
// run that begins where the one before had made an epoch, and draws that epoch's order again.
std::vector<CanaryBeside> canaries_beside() {
  auto others = ranks_of(2), summed = ranks_of(2);
  for (auto& record : others.ranks[1].records)
    if (auto* drawn = std::get_if<Drawn>(&record.what)) drawn->indices[0] = 0;
  change(summed, "gradients", 0, times(2));
  auto before = right_run();
  for (auto& rank : before.ranks)
    for (int pass = 0; pass < 2; ++pass)
      nth<Fact>(rank, pass, "loader 0").values["fingerprint"] = "f";
  auto resumed = before;
  for (auto& rank : resumed.ranks)
    nth<Digests>(rank, 0, "parameters") = nth<Digests>(rank, 2, "parameters");
  const auto one = one_process();
  return {{"data.is_that_of_one_process", "other_batches",
           batches_are_those_of_one_process(others, one)},
          {"values.follow_one_process", "sum_not_average", values_follow_one_process(summed, one)},
          {"data.order_continues", "epoch_drawn_before", order_continues(resumed, before)},
          {"optimizer.continues", "state_lost", optimizers_continue(resumed, before)}};
}

bool holds(const Result& result) {
  return result.kind == Result::Kind::pass || result.kind == Result::Kind::skip;
}

bool all_hold(const Run& run) {
  return std::all_of(run.results.begin(), run.results.end(), holds);
}

Judgement judgement_of(std::string_view name, const RecordedRun& run) {
  const auto all = invariants();
  return std::find_if(all.begin(), all.end(),
                      [&](const Invariant& invariant) { return invariant.name == name; })
      ->judge(run);
}

bool is_first_of(const Findings& findings, const std::string& pattern) {
  return !findings.empty() && findings.front().pattern == pattern;
}

std::string name_of(const char* invariant, const std::string& pattern) {
  return std::string(invariant) + ": " + pattern;
}

}  // namespace

std::vector<std::string> blind_invariants() {
  std::vector<std::string> blind;
  for (const auto& result : judged(right_run()).results)
    if (!holds(result)) blind.push_back("false alarm: " + result.scenario);
  for (const auto& canary : canaries()) {
    auto run = right_run();
    canary.plant(run);
    const auto judgement = judgement_of(canary.invariant, run);
    const bool fails = !judgement.findings.empty();
    if (!is_first_of(fails ? judgement.findings : judgement.remarks, canary.pattern) ||
        (fails && all_hold(judged(run))))
      blind.push_back(name_of(canary.invariant, canary.pattern));
  }
  for (const auto& canary : canaries_beside())
    if (!is_first_of(canary.judgement.findings, canary.pattern))
      blind.push_back(name_of(canary.invariant, canary.pattern));
  return blind;
}

}  // namespace lockstep::recorded
