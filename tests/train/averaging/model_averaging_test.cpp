// Averaging of models: the form of what it writes, and what it refuses.
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
    try {
      averager.set_step(-1);
    } catch (const UsageError& error) {
      report += std::string(error.what()) + "; ";
    }
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
           "ModelAverager::set_step: the step is -1, expected at least 0; "
           "ranks disagree on the step of average_parameters: rank 0 has 0; rank 1 has 1; "
           "ranks disagree on the number of parameters of average_parameters: rank 0 has 1; "
           "rank 1 has 0; "
           "ranks 0 and 1 of 2 cannot take part: average_parameters: parameter 0 is undefined; "));
}

}  // namespace
}  // namespace lockstep
