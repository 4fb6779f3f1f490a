// Averaging of models: the form of what it writes, and what it refuses.
#include "train/model_averaging.h"

#include "ddp/errors.h"
#include "tests/ddp/forked_world.h"
#include "train/collectives.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace lockstep {
namespace {

using testing::Group;
using testing::numbers;
using testing::run_world;
using testing::same;

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

TEST(ModelAveraging, RefusesASizeAStepAndAParameterThatCannotBe) {
  const auto reports = run_world(2, [](const Group& group) {
    std::string report;
    const auto refused = [&](const std::function<void()>& act) {
      try {
        act();
        report += "nothing; ";
      } catch (const DisagreementError& error) {
        report += std::string(error.what()) + "; ";
      }
    };
    refused([&] { new_subgroups(group, 3); });
    PeriodicModelAverager averager(group, {});
    try {
      averager.set_step(-1);
    } catch (const UsageError& error) {
      report += std::string(error.what()) + "; ";
    }
    refused([&] { averager.average_parameters(std::vector<at::Tensor>(1)); });
    return report;
  });
  EXPECT_EQ(
      reports,
      same(2,
           "ranks 0 and 1 of 2 cannot take part: new_subgroups: the size is 3, expected a divisor "
           "of 2 ranks; "
           "ModelAverager::set_step: the step is -1, expected at least 0; "
           "ranks 0 and 1 of 2 cannot take part: average_parameters: parameter 0 is undefined; "));
}

}  // namespace
}  // namespace lockstep
