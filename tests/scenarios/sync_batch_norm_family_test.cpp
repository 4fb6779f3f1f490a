// Checks what single scenarios of SyncBatchNorm expect, on made-up histories.
#include "harness/base/values.h"
#include "harness/cases/scenario.h"
#include "scenarios/cases/tensors.h"
#include "scenarios/catalogue.h"
#include "scenarios/sync_batch_norm/expected.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace lockstep::scenarios::sync_batch_norm {
namespace {

Verdict judged(const Scenario& scenario, const Case& c, const History& history) {
  return judge(scenario, c, history);
}

std::string first_pattern(const Verdict& verdict) {
  return verdict.findings.empty() ? std::string(name_of(verdict.kind))
                                  : verdict.findings.front().pattern;
}

TensorValue floats(const std::vector<double>& values) {
  return recorded(torch::tensor(values, at::kDouble), at::kFloat);
}

// -- keeps_buffers_equal_under_ddp: zeros and tens, two ranks of two samples, computed by hand.

struct Seen {
  std::vector<double> average, variance;  // by rank, of channel 0, whose input is the data itself
};

// Channel k holds (k + 1) times the data, plus k; running averages start at 0, variances at 1.
History buffers_of(const std::vector<Seen>& steps) {
  std::vector<RankHistory> ranks(2);
  for (size_t rank = 0; rank < 2; ++rank) {
    for (const char* name : {"has a log", "has_sync_bn"})
      ranks[rank].events.push_back({{0, "wrapped"}, Observation{name, int64_values({0})}});
    double kept = 1;
    for (size_t s = 0; s < steps.size(); ++s) {
      kept *= 7.0 / 8;
      std::vector<double> average, variance;
      for (int k = 0; k < 3; ++k) {
        average.push_back((k + 1) * steps[s].average[rank] + k * (1 - kept));
        variance.push_back((k + 1) * (k + 1) * steps[s].variance[rank] + kept);
      }
      const Moment at{static_cast<int>(s), "after step"};
      ranks[rank].events.push_back({at, Observation{kRunningMean, floats(average)}});
      ranks[rank].events.push_back({at, Observation{kRunningVar, floats(variance)}});
      ranks[rank].events.push_back(
          {at,
           Observation{kBatches, recorded(torch::tensor(static_cast<int64_t>(s) + 1), at::kLong)}});
    }
  }
  return History(std::move(ranks));
}

std::string buffers_judged(const std::string& norm, bool broadcast,
                           const std::vector<Seen>& steps) {
  const auto scenario = scenario_in_catalogue("sync_batch_norm.keeps_buffers_equal_under_ddp");
  const auto c = scenario.parse({{"world", {{"size", 2}}},
                                 {"steps", steps.size()},
                                 {"distance", 10},
                                 {"norm", norm},
                                 {"broadcast_buffers", broadcast}});
  return first_pattern(judged(scenario, c, buffers_of(steps)));
}

// Sixteen values, half zeros and half tens: 5 on average, a variance of 25 x 16 / 15.
constexpr double kVariance = 400.0 / 15;
const std::vector<Seen> kSynchronised{
    {{5.0 / 8, 5.0 / 8}, {kVariance / 8, kVariance / 8}},
    {{75.0 / 64, 75.0 / 64}, {kVariance * 15 / 64, kVariance * 15 / 64}}};
const std::vector<Seen> kBroadcast{{{0, 10.0 / 8}, {0, 0}}, {{0, 10.0 / 8}, {0, 0}}};
const std::vector<Seen> kOwnSubgroup{{{0, 10.0 / 8}, {0, 0}}, {{0, 150.0 / 64}, {0, 0}}};

TEST(BuffersUnderDdp, AreTheWholeBatchsWithASynchronisedLayer) {
  for (const bool broadcast : {true, false})
    EXPECT_EQ(buffers_judged("synchronised", broadcast, kSynchronised), "pass");
}

TEST(BuffersUnderDdp, AreRankZerosAndABatchWithAPlainLayerAndTheBroadcast) {
  EXPECT_EQ(buffers_judged("plain", true, kBroadcast), "pass");
}

TEST(BuffersUnderDdp, DriftApartWithAPlainLayerAndNoBroadcast) {
  EXPECT_EQ(buffers_judged("plain", false, kOwnSubgroup), "pass");
}

TEST(BuffersUnderDdp, OfAnotherKindAreReportedByName) {
  EXPECT_EQ(buffers_judged("plain", true, kOwnSubgroup), "kept_own_buffers");
  EXPECT_EQ(buffers_judged("plain", false, kBroadcast), "took_rank_zeros_buffers");
  EXPECT_EQ(buffers_judged("synchronised", false, kOwnSubgroup), "running_statistics_local");
  EXPECT_NE(buffers_judged("plain", true, kSynchronised), "pass");
}

// -- gradients_want_weights

const Layer kUneven{.world = {.size = 2},
                    .norm = {.channels = 2},
                    .spatial = {2},
                    .samples = {6, 2},
                    .values = Values::real,
                    .seed = 15};

// Records the gradients of ranks whose losses are weighted, or are not, whatever the phase says.
void record_gradients(std::vector<RankHistory>& ranks, const char* phase,
                      const std::vector<double>& factors) {
  auto parts = parts_of(kUneven, 0);
  for (size_t rank = 0; rank < parts.size(); ++rank)
    parts[rank].cotangent = (parts[rank].cotangent * factors[rank]).to(at::kFloat).to(at::kDouble);
  const auto right = reference::normalised(definition_of(kUneven), parts, 24);
  const auto average = [](const std::vector<reference::Rounded>& shares) {
    return recorded((shares[0].value + shares[1].value) / 2, at::kFloat);
  };
  for (size_t rank = 0; rank < parts.size(); ++rank) {
    const auto record = [&](const char* name, TensorValue value) {
      ranks[rank].events.push_back({{0, phase}, Observation{name, std::move(value)}});
    };
    record(kOutput, recorded(right.outputs[rank].value, at::kFloat));
    record(kInputGradient, recorded(right.input_gradients[rank].value, at::kFloat));
    record(kWeightGradient, average(right.weight_gradients));
    record(kBiasGradient, average(right.bias_gradients));
  }
}

std::string weights_judged(const std::vector<double>& weighted,
                           const std::vector<double>& unweighted) {
  const auto scenario = scenario_in_catalogue("sync_batch_norm.gradients_want_weights");
  std::vector<RankHistory> ranks(2);
  record_gradients(ranks, "weighted", weighted);
  record_gradients(ranks, "unweighted", unweighted);
  return first_pattern(judged(scenario, {scenario.name, to_json(kUneven)}, History(ranks)));
}

// W n_r / N over n_r, and 1 over n_r.
const std::vector<double> kByBatch{2.0 / 8, 2.0 / 8}, kByRank{1.0 / 6, 1.0 / 2};

TEST(WeightedLosses, GiveOneProcesssGradients) {
  EXPECT_EQ(weights_judged(kByBatch, kByRank), "pass");
}

TEST(WeightedLosses, LeftUnweightedAreAnAverageOfAverages) {
  EXPECT_EQ(weights_judged(kByRank, kByRank), "average_of_averages");
  EXPECT_NE(weights_judged(kByBatch, kByBatch), "pass");
}

// -- evaluation_is_local and split_does_not_matter, in a world of one

const Layer kAlone{.world = {.size = 1},
                   .norm = {.channels = 2},
                   .spatial = {2},
                   .samples = {3},
                   .values = Values::real,
                   .seed = 16};

History evaluated_as(bool by_the_batch) {
  auto longer = kAlone;
  longer.steps = 2;
  const auto steps = expected_steps(longer);
  RankHistory rank;
  const auto record = [&](const char* phase, const char* name, const TensorValue& value) {
    rank.events.push_back({{1, phase}, Observation{name, value}});
  };
  const auto input = input_of(kAlone, 1, 0).to(at::kDouble);
  const auto held = [&](const char* name) {
    return torch::tensor(as_doubles(steps[0].at(name).values.front()), at::kDouble);
  };
  const auto right = by_the_batch
                         ? steps[1].at(kOutput).values.front()
                         : recorded(reference::evaluated(definition_of(kAlone), input,
                                                         held(kRunningMean), held(kRunningVar), 24)
                                        .value,
                                    at::kFloat);
  for (const char* phase : {"trained", "one evaluates", "all evaluate"}) {
    for (const char* name : {kRunningMean, kRunningVar, kBatches})
      record(phase, name, steps[0].at(name).values.front());
    if (phase != std::string("trained")) record(phase, kOutput, right);
  }
  record("training again", kOutput, steps[1].at(kOutput).values.front());
  return History({rank});
}

std::string evaluation_judged(const History& history) {
  const auto scenario = scenario_in_catalogue("sync_batch_norm.evaluation_is_local");
  return first_pattern(judged(scenario, {scenario.name, to_json(kAlone)}, history));
}

TEST(Evaluation, IsByRunningStatistics) {
  EXPECT_EQ(evaluation_judged(evaluated_as(/*by_the_batch=*/false)), "pass");
  EXPECT_EQ(evaluation_judged(evaluated_as(/*by_the_batch=*/true)), "local_statistics");
}

TEST(Evaluation, ThatIssuesACollectiveIsFound) {
  auto ranks = evaluated_as(/*by_the_batch=*/false).ranks();
  ranks[0].events.push_back(
      {{1, "all evaluate"},
       Collective{.op = "allgather", .group = "world", .dtype = "int64", .done = true}});
  EXPECT_EQ(evaluation_judged(History(ranks)), "collective_in_evaluation");
}

std::string split_judged(const char* other_than_right) {
  const auto scenario = scenario_in_catalogue("sync_batch_norm.split_does_not_matter");
  const auto step = expected_steps(kAlone).front();
  RankHistory rank;
  for (const char* phase :
       {"as given", "moved on by a rank", "evenly", "all on one rank", "in a group of others"})
    for (const auto& [name, row] : step) {
      auto value = row.values.front();
      if (phase == std::string("evenly") && name == other_than_right)
        value = recorded(torch::tensor(as_doubles(value), at::kDouble).reshape(value.shape) * 1.5,
                         at::kFloat);
      rank.events.push_back({{0, phase}, Observation{name, value}});
    }
  return first_pattern(judged(scenario, {scenario.name, to_json(kAlone)}, History({rank})));
}

TEST(SplitBatch, IsTheSameBatch) {
  EXPECT_EQ(split_judged(""), "pass");
  for (const char* name :
       {kOutput, kInputGradient, kWeightGradient, kBiasGradient, kRunningMean, kRunningVar})
    EXPECT_EQ(split_judged(name), "depends_on_the_split") << name;
}

}  // namespace
}  // namespace lockstep::scenarios::sync_batch_norm
