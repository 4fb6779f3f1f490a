// Averages, for locating a mistake that the scenarios catch; and forwards that are refused. Local
// gradients are multiples of W, so averages are exact.
#include "ddp/distributed_data_parallel.h"
#include "ddp/errors.h"
#include "tests/ddp/forked_world.h"
#include "tests/ddp/modules.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace lockstep {
namespace {

using testing::Group;
using testing::run_world;
using testing::same;
using testing::Terms;
using Loss = testing::TermsImpl::Loss;

// Two doubles reach this cap, so each parameter of two is a bucket of its own after the first step.
constexpr double kTinyCap = 16.0 / (1 << 20);

TEST(Gradients, AreAveragesOverTheRanksInEveryStepAndBucketLayout) {
  for (const int world : {1, 2, 3, 4}) {
    for (const std::optional<double> cap : {std::optional<double>(), {kTinyCap}, {0.0}}) {
      const auto reports = run_world(world, [&](const Group& group) {
        Terms net(4);
        DistributedDataParallel ddp(net, {.process_group = group, .bucket_cap_mb = cap});
        std::string report;
        for (int step = 1; step <= 3; ++step) {
          net->zero_grad();
          // Rank r: W * (r + 1) * step in w0, ten times that in w1, ...
          const double c = world * (group->getRank() + 1.0) * step;
          ddp.forward(Loss{{0, c}, {1, 10 * c}, {2, 100 * c}, {3, 1000 * c}}).backward();
          report += net->gradients() + "; ";
        }
        return report + std::to_string(ddp->bucket_plan().size());
      });
      std::string expected;
      for (int step = 1; step <= 3; ++step) {
        const int sum_of_ranks = world * (world + 1) / 2 * step;
        const auto twice = [&](int factor) {
          const std::string one = std::to_string(factor * sum_of_ranks);
          return one + " " + one;
        };
        expected += twice(1) + " | " + twice(10) + " | " + twice(100) + " | " + twice(1000) + "; ";
      }
      EXPECT_EQ(reports, same(world, expected + (cap ? "4" : "1")));
    }
  }
}

TEST(Gradients, ThatNobodyCouldAverageAreReportedAtTheNextForward) {
  using Change = std::function<void(Terms&)>;
  const std::vector<std::pair<std::string, Change>> changes = {
      {"'w1' was frozen after it was wrapped; call update_trainable_parameters() on every rank",
       [](Terms& net) { net->weights[1].set_requires_grad(false); }},
      {"'w2' was unfrozen after it was wrapped; call update_trainable_parameters() on every rank",
       [](Terms& net) { net->weights[2].set_requires_grad(true); }},
      {"'w0' was converted, moved or reshaped", [](Terms& net) { net->to(at::kFloat); }},
      {"'w0' was converted, moved or reshaped",
       [](Terms& net) { net->weights[0].set_data(torch::zeros({3}, at::kDouble)); }}};
  for (const auto& [part, change] : changes) {
    const auto reports = run_world(2, [&, &change = change](const Group& group) {
      Terms net(3);
      net->weights[2].set_requires_grad(false);
      DistributedDataParallel ddp(net, {.process_group = group});
      change(net);
      ddp.forward(Loss{{0, 1.0}});
      return std::string("no error");
    });
    for (const std::string& report : reports) {
      EXPECT_NE(report.find("UsageError"), std::string::npos) << report;
      EXPECT_NE(report.find(part), std::string::npos) << report;
    }
  }
}

}  // namespace
}  // namespace lockstep
