// Passes over parts of a forward, hooks of the users, and what the logging data say.
#include "ddp/distributed_data_parallel.h"
#include "ddp/errors.h"
#include "ddp/module/fixed_signature.h"
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

// PyTorch collects the gradients of one forward over several backwards; ours says what to do.
TEST(Passes, OverPartsOfOneForwardAreReportedWithTheWayOut) {
  struct TwoOutputs : torch::nn::Module {
    at::Tensor left = register_parameter("left", torch::ones({1}, at::kDouble));
    at::Tensor right = register_parameter("right", torch::ones({1}, at::kDouble));
    std::pair<at::Tensor, at::Tensor> forward(double factor) {
      return {(left * factor).sum(), (right * factor).sum()};
    }
  };
  for (const int world : {2, 3}) {
    const auto reports = run_world(world, [](const Group& group) {
      const auto net = std::make_shared<TwoOutputs>();
      DistributedDataParallel ddp(net, {.process_group = group});
      const auto parts = ddp.forward(1.0);
      std::string report;
      try {
        parts.first.backward();
      } catch (const UnfinishedReductionError& error) {
        report = error.what();
      }
      net->zero_grad();
      const auto [left, right] = ddp.forward(3.0 * group->getRank());
      (left + right).backward();
      return report + "; " + numbers(net->left.grad()) + " " + numbers(net->right.grad());
    });
    for (const std::string& report : reports) {
      EXPECT_EQ(report, reports.front());
      EXPECT_NE(report.find("lacks 'right'"), std::string::npos) << report;
      EXPECT_TRUE(report.ends_with(std::string("add the losses, and call backward() once on the "
                                               "sum; ") +
                                   (world == 2 ? "1.5 1.5" : "3 3")))
          << report;
    }
  }
}

// Hooks see what this rank has for itself; averages are there when backward returns.
TEST(Passes, AreAveragedBehindEveryHookOfTheUsers) {
  const auto reports = run_world(2, [](const Group& group) {
    Terms net(2);
    DistributedDataParallel ddp(net, {.process_group = group, .bucket_cap_mb = 0.0});
    std::string report;
    for (int step = 0; step < 2; ++step) {
      net->zero_grad();
      const auto hook = net->weights[0].register_hook(
          [&](const at::Tensor& gradient) { report += numbers(gradient) + " then "; });
      ddp.forward(Loss{{0, share(group)}, {1, 1.0}}).backward();
      net->weights[0].remove_hook(hook);
      report += numbers(net->weights[0].grad()) + "; ";
    }
    return report;
  });
  EXPECT_EQ(reports, (std::vector<std::string>{"2 2 then 3 3; 2 2 then 3 3; ",
                                               "4 4 then 3 3; 4 4 then 3 3; "}));
}

TEST(Logging, ReportsWhatTheObjectIsAndWhatItHasDone) {
  const auto reports = run_world(2, [](const Group& group) {
    Terms net(3);
    DistributedDataParallel ddp(
        net, {.process_group = group, .bucket_cap_mb = 0.0, .find_unused_parameters = true});
    LoggingData data = ddp->logging_data();
    std::string report = std::to_string(data.world_size) + " " + std::to_string(data.rank) + " " +
                         data.backend_name + " " + std::to_string(data.num_parameter_tensors) +
                         " " + std::to_string(data.total_parameter_size_bytes) + " " +
                         c10::Join(",", data.dtypes) + " " + c10::Join(",", data.bucket_sizes) +
                         " " + std::to_string(data.iteration) + "; ";
    ddp->set_runtime_logging_sample_rate(5);
    for (int step = 0; step < 16; ++step) ddp.forward(Loss{{0, 1.0}, {2, 1.0}}).backward();
    data = ddp->logging_data();
    report += std::to_string(data.iteration) + " " + std::to_string(data.timed_iterations) + " " +
              std::to_string(data.unused_parameter_size) + " " +
              std::to_string(data.num_buckets_reduced) + " " +
              std::to_string(data.has_rebuilt_buckets) + " " +
              c10::Join(",", data.prev_iteration_grad_ready_order_indices) + "; ";
    const bool are_times = data.avg_forward_compute_time.count() > 0 &&
                           data.avg_backward_compute_time.count() > 0 &&
                           data.avg_backward_comm_time.count() > 0;
    report += are_times ? "timed; " : "not timed; ";
    try {
      ddp->set_runtime_logging_sample_rate(0);
    } catch (const UsageError& error) {
      report += error.what();
    }
    return report;
  });
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(reports[static_cast<std::size_t>(rank)],
              "2 " + std::to_string(rank) +
                  " gloo 3 48 double 16,16,16 0; 16 12 16 3 0 2,0; timed; the sample rate of the "
                  "runtime logging is 0, expected at least 1");
  }
}

TEST(Handle, GoesIntoASequentialWithOneSignature) {
  const auto reports = run_world(2, [](const Group& group) {
    torch::nn::Linear net(torch::nn::LinearOptions(2, 1).bias(false));
    DistributedDataParallel ddp(net, {.process_group = group});
    torch::nn::Sequential all(fixed_signature<at::Tensor(at::Tensor)>(ddp), torch::nn::Flatten());
    std::string report;
    for (int step = 0; step < 2; ++step) {
      net->zero_grad();
      all->forward(torch::full({1, 2}, share(group))).sum().backward();
      report += numbers(net->weight.grad()) + "; ";
    }
    return report + all->named_parameters().keys().front();
  });
  EXPECT_EQ(reports, same(2, "3 3; 3 3; 0.module.module.weight"));
}

}  // namespace
}  // namespace lockstep
