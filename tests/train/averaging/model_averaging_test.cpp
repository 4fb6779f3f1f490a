// Averaging of models: who averages with whom at which step, and what it changes.
#include "train/model_averaging.h"

#include "ddp/errors.h"
#include "tests/ddp/forked_world.h"
#include "tests/ddp/modules.h"
#include "train/collectives.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace lockstep {
namespace {

using testing::Group;
using testing::numbers;
using testing::run_world;
using testing::same;
using testing::Terms;

// One parameter, which every step sets to the rank's own number and then averages.
std::string averages_by_step(const Group& group, ModelAverager& averager, int steps) {
  const at::Tensor weight = at::zeros({1}).set_requires_grad(true);
  weight.mutable_grad() = at::zeros({1});
  std::string report;
  for (int step = 0; step < steps; ++step) {
    const at::NoGradGuard no_grad;
    weight.fill_(12.0 * group->getRank());
    averager.average_parameters(std::vector<at::Tensor>{weight});
    report += (step == 0 ? "" : " ") + numbers(weight);
  }
  return report;
}

TEST(PeriodicAveraging, AveragesInTheStepAfterTheWarmUpAndInEveryPeriodThen) {
  const auto reports = run_world(2, [](const Group& group) {
    PeriodicModelAverager averager(group, {.period = 3, .warmup_steps = 1});
    return averages_by_step(group, averager, 8);
  });
  EXPECT_EQ(reports, (std::vector<std::string>{"0 6 0 0 6 0 0 6", "12 6 12 12 6 12 12 6"}));
}

TEST(PeriodicAveraging, ContinuesAtTheStepThatIsSet) {
  const auto reports = run_world(2, [](const Group& group) {
    PeriodicModelAverager averager(group, {.period = 3, .warmup_steps = 1});
    averager.set_step(6);
    return averages_by_step(group, averager, 3) + " " + std::to_string(averager.step());
  });
  EXPECT_EQ(reports, (std::vector<std::string>{"0 6 0 9", "12 6 12 9"}));
}

// Ranks 0 to 3 hold 0, 12, 24 and 36: pairs average to 6 and 30, all to 18. The warm-up is not
// subtracted from the step.
TEST(HierarchicalAveraging, AveragesOverTheGroupsOfTheLongestPeriodThatFits) {
  const auto reports = run_world(4, [](const Group& group) {
    HierarchicalModelAverager averager(group, {.levels = {{2, 2}, {4, 4}}, .warmup_steps = 1});
    return averages_by_step(group, averager, 9);
  });
  EXPECT_EQ(reports,
            (std::vector<std::string>{"0 0 6 0 18 0 6 0 18", "12 12 6 12 18 12 6 12 18",
                                      "24 24 30 24 18 24 30 24 18", "36 36 30 36 18 36 30 36 18"}));
}

TEST(HierarchicalAveraging, HasOneGroupOfEveryLevelOnEachRank) {
  const auto reports = run_world(6, [](const Group& group) {
    HierarchicalModelAverager averager(group, {.levels = {{1, 1}, {2, 3}, {4, 6}}});
    return averages_by_step(group, averager, 4);
  });
  std::vector<std::string> expected;
  for (int rank = 0; rank < 6; ++rank) {
    const std::string own = std::to_string(12 * rank), of_three = rank < 3 ? "12" : "48";
    expected.push_back("30 " + own + " " + of_three + " " + own);
  }
  EXPECT_EQ(reports, expected);
}

TEST(ModelAveraging, LeavesParametersWithoutAGradientAlone) {
  const auto reports = run_world(2, [](const Group& group) {
    PeriodicModelAverager averager(group, {});
    Terms net(3, 1, group->getRank() * 2.0);
    net->forward({{0, 1.0}, {2, 1.0}}).backward();
    averager.average_parameters(*net);
    return numbers(at::cat(net->weights));
  });
  EXPECT_EQ(reports, (std::vector<std::string>{"1 0 1", "1 2 1"}));
}

// 65504 is the greatest number of float16, so a sum would be infinite.
TEST(ModelAveraging, KeepsDtypesStridesAndStoragesAndDividesBeforeItSums) {
  const auto reports = run_world(2, [](const Group& group) {
    PeriodicModelAverager averager(group, {});
    const double mine = group->getRank() + 1.0;
    const at::Tensor half = at::full({2}, 65504.0, at::kHalf);
    const at::Tensor wide = at::full({3}, mine * 2, at::kDouble).view({3});
    const at::Tensor column = (at::arange(6).view({3, 2}) * mine).t();
    const at::Tensor pair = at::complex(at::full({1}, mine), at::full({1}, -mine));
    const at::Tensor nothing = at::empty({0});
    const std::vector<at::Tensor> all = {half, wide, column, pair, nothing};
    std::vector<const void*> places;
    for (const at::Tensor& each : all) {
      each.set_requires_grad(true);
      each.mutable_grad() = at::zeros_like(each);
      places.push_back(each.const_data_ptr());
    }
    averager.average_parameters(all);
    std::string report;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const at::Tensor value = all[i].detach();
      report += numbers(value.is_complex() ? at::view_as_real(value) : value) +
                (all[i].const_data_ptr() == places[i] ? " | " : " moved | ");
    }
    return report + (column.stride(0) == 1 ? "" : "restrided");
  });
  EXPECT_EQ(reports, same(2, "65504 65504 | 3 3 3 | 0 3 6 1.5 4.5 7.5 | 1.5 -1.5 |  | "));
}

TEST(ModelAveraging, RefusesUnequalSetsOfGradientsOnEveryRankAndChangesNothing) {
  const auto reports = run_world(3, [](const Group& group) {
    PeriodicModelAverager averager(group, {});
    Terms net(2, 1, group->getRank());
    net->forward({{0, 1.0}, {group->getRank() == 1 ? 0 : 1, 1.0}}).backward();
    std::string sentence;
    try {
      averager.average_parameters(*net);
    } catch (const DisagreementError& error) {
      sentence = error.what();
    }
    const bool is_unchanged =
        numbers(at::cat(net->weights)) ==
        std::to_string(group->getRank()) + " " + std::to_string(group->getRank());
    net->weights[1].mutable_grad() = at::zeros({1}, at::kDouble);
    averager.average_parameters(*net);  // the same step again
    return sentence + (is_unchanged ? "; " : "; changed ") + numbers(at::cat(net->weights)) +
           " after step " + std::to_string(averager.step());
  });
  EXPECT_EQ(
      reports,
      same(3,
           "ranks disagree on parameter 'w1' of average_parameters: ranks 0 and 2 have Double "
           "[1] on cpu with a gradient; rank 1 has Double [1] on cpu without a gradient; 1 1 "
           "after step 1"));
}

TEST(ModelAveraging, RefusesDifferentStepsAndOptionsAndValuesOutOfRange) {
  const auto reports = run_world(2, [](const Group& group) {
    const bool is_first = group->getRank() == 0;
    std::string report;
    const auto refused = [&](const std::function<void()>& act) {
      try {
        act();
        report += "nothing; ";
      } catch (const DisagreementError& error) {
        report += std::string(error.what()) + "; ";
      }
    };
    refused([&] { PeriodicModelAverager(group, {.period = is_first ? 2 : 3}); });
    refused([&] { PeriodicModelAverager(group, {.period = is_first ? 1 : 0}); });
    refused([&] { PeriodicModelAverager(group, {.warmup_steps = -1}); });
    refused([&] { HierarchicalModelAverager(group, {}); });
    refused([&] { HierarchicalModelAverager(group, {.levels = {{2, 1}, {2, 2}}}); });
    refused([&] { HierarchicalModelAverager(group, {.levels = {{2, 2}, {4, 3}}}); });
    refused([&] { HierarchicalModelAverager(group, {.levels = {{2, 1}}}); });
    refused([&] { new_subgroups(group, 3); });
    PeriodicModelAverager averager(group, {});
    averager.set_step(is_first ? 0 : 1);
    refused([&] { averager.average_parameters(std::vector<at::Tensor>{}); });
    averager.set_step(0);
    refused([&] {
      averager.average_parameters(std::vector<at::Tensor>(is_first ? 1 : 0, at::zeros({1})));
    });
    refused([&] { averager.average_parameters(std::vector<at::Tensor>(1)); });
    return report;
  });
  EXPECT_EQ(
      reports,
      same(2,
           "ranks disagree on period of PeriodicModelAverager: rank 0 has 2; rank 1 has 3; "
           "rank 1 of 2 cannot take part: PeriodicModelAverager: period is 0, expected at least 1; "
           "ranks 0 and 1 of 2 cannot take part: PeriodicModelAverager: warmup_steps is -1, "
           "expected at least 0; "
           "ranks 0 and 1 of 2 cannot take part: HierarchicalModelAverager: levels are none, "
           "expected at least "
           "one; "
           "ranks 0 and 1 of 2 cannot take part: HierarchicalModelAverager: levels are period 2 in "
           "groups of 1, "
           "period 2 in groups of 2, expected periods that grow from at least 1; "
           "ranks 0 and 1 of 2 cannot take part: HierarchicalModelAverager: levels are period 2 in "
           "groups of 2, "
           "period 4 in groups of 3, expected groups each of which is a multiple of the one "
           "before; "
           "ranks 0 and 1 of 2 cannot take part: HierarchicalModelAverager: levels are period 2 in "
           "groups of 1, "
           "expected the last groups to be of all 2 ranks; "
           "ranks 0 and 1 of 2 cannot take part: new_subgroups: the size is 3, expected a divisor "
           "of 2 ranks; "
           "ranks disagree on the step of average_parameters: rank 0 has 0; rank 1 has 1; "
           "ranks disagree on the number of parameters of average_parameters: rank 0 has 1; "
           "rank 1 has 0; "
           "ranks 0 and 1 of 2 cannot take part: average_parameters: parameter 0 is undefined; "));
}

TEST(ModelAveraging, TakesTheSamePathInAWorldOfOne) {
  const auto reports = run_world(1, [](const Group& group) {
    PeriodicModelAverager periodic(group, {.period = 2});
    HierarchicalModelAverager hierarchical(group, {.levels = {{2, 1}}});
    return averages_by_step(group, periodic, 2) + " " + averages_by_step(group, hierarchical, 2);
  });
  EXPECT_EQ(reports, same(1, "0 0 0 0"));
}

}  // namespace
}  // namespace lockstep
