// Views of buckets, caps of a list, and gradients that are refused.
#include "ddp/distributed_data_parallel.h"
#include "tests/ddp/forked_world.h"
#include "tests/ddp/modules.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace lockstep {
namespace {

using testing::Group;
using testing::numbers;
using testing::run_world;
using testing::same;
using testing::share;
using testing::Terms;
using Loss = testing::TermsImpl::Loss;

// Accumulated over two synchronised passes: the average of (average + new).
TEST(Views, AreTheGradientsAndStaySoThroughRebuildAndZeroing) {
  const auto reports = run_world(2, [](const Group& group) {
    Terms net(4);
    DistributedDataParallel ddp(
        net, {.process_group = group, .bucket_cap_mb = 0.0, .gradient_as_bucket_view = true});
    std::string report;
    torch::optim::SGD optimizer(net->parameters(), 1.0);
    const auto step = [&](double factor) {
      const double c = factor * (share(group));
      ddp.forward(Loss{{0, c}, {1, 10 * c}, {2, 100 * c}, {3, 1000 * c}}).backward();
      report += net->gradients() + "; ";
    };
    step(1);
    step(1);                     // after the rebuild, into the views of the old layout
    optimizer.zero_grad(false);  // detaches and zeroes what is there: PyTorch's views throw here
    step(1);
    const void* const before = net->weights[2].grad().data_ptr();
    net->zero_grad(false);
    step(1);
    report += net->weights[2].grad().data_ptr() == before ? "same memory; " : "other memory; ";
    net->zero_grad(true);
    step(1);
    report += net->weights[2].grad().data_ptr() == before ? "same memory; " : "other memory; ";
    net->weights[1].mutable_grad() = torch::ones({2}, at::kDouble);  // a stranger
    step(1);
    return report;
  });
  const std::string once = "3 3 | 30 30 | 300 300 | 3000 3000; ";
  EXPECT_EQ(reports,
            same(2, once + "6 6 | 60 60 | 600 600 | 6000 6000; " + once + once + "same memory; " +
                        once + "same memory; 6 6 | 31 31 | 600 600 | 6000 6000; "));
}

TEST(Views, OfTwoInstancesOnOneModuleAreRefused) {
  const auto reports = run_world(2, [](const Group& group) {
    Terms net(2);
    DistributedDataParallel inner(net, {.process_group = group, .gradient_as_bucket_view = true});
    DistributedDataParallel outer(inner, {.process_group = group, .gradient_as_bucket_view = true});
    outer.forward(Loss{{0, 1.0}, {1, 1.0}}).backward();
    return std::string("accepted");
  });
  for (const std::string& report : reports) {
    EXPECT_NE(report.find("another DistributedDataParallel over the same parameters"),
              std::string::npos)
        << report;
  }
}

TEST(BucketCaps, OfAListCountFromTheFirstParameterAtFirstAndInOrderOfLaunchThen) {
  const auto reports = run_world(2, [](const Group& group) {
    Terms net(6);
    constexpr double kWeight = 16.0 / (1 << 20);
    DistributedDataParallel ddp(
        net, {.process_group = group, .bucket_cap_mb_list = {kWeight, 2 * kWeight}});
    std::string report;
    for (int step = 0; step < 2; ++step) {
      ddp.forward(Loss{{0, 1.0}, {1, 1.0}, {2, 1.0}, {3, 1.0}, {4, 1.0}, {5, 1.0}}).backward();
      for (const PlannedBucket& bucket : ddp->bucket_plan()) {
        for (const std::size_t index : bucket.gradients) report += std::to_string(index);
        report += '/';
      }
      report += ' ';
    }
    return report;
  });
  EXPECT_EQ(reports, same(2, "5/34/12/0/ 5/43/21/0/ "));
}

// Under either of its names.
TEST(Kinds, OfSharedParametersCountOnceAndAreIgnoredUnderAllNamesOrNone) {
  struct Tied : torch::nn::Module {
    Tied() {
      a = register_parameter("a", torch::ones({1}, at::kDouble));
      register_parameter("b", a);
      c = register_parameter("c", torch::ones({1}, at::kDouble));
    }
    at::Tensor forward(double factor) { return (a + c) * factor; }
    at::Tensor a, c;
  };
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{}, "3 3"}, {{"a"}, "3 3"}, {{"b"}, "3 3"}, {{"a", "b"}, "own 3"}};
  for (const auto& [ignored, expected] : cases) {
    const auto reports = run_world(2, [&, &ignored = ignored](const Group& group) {
      const auto net = std::make_shared<Tied>();
      DistributedDataParallel ddp(
          net, {.process_group = group, .parameters_and_buffers_to_ignore = ignored});
      const double own = share(group);
      ddp.forward(own).backward();
      const std::string a = numbers(net->a.grad());
      return (a == numbers(torch::tensor(own)) ? "own" : a) + " " + numbers(net->c.grad());
    });
    EXPECT_EQ(reports, same(2, expected));
  }
}

}  // namespace
}  // namespace lockstep
