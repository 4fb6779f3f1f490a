// Decides which backward passes are reduced, and reports them.
#include "ddp/distributed_data_parallel.h"
#include "ddp/errors.h"
#include "ddp/module/fixed_signature.h"
#include "tests/ddp/forked_world.h"
#include "tests/ddp/modules.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <thread>

namespace lockstep {
namespace {

using testing::Group;
using testing::numbers;
using testing::run_world;
using testing::same;
using testing::share;
using testing::Terms;
using Loss = testing::TermsImpl::Loss;

TEST(Passes, OfOneGraphTwiceAreBothReduced) {
  const auto reports = run_world(2, [](const Group& group) {
    Terms net(1);
    DistributedDataParallel ddp(net, {.process_group = group});
    const auto loss = ddp.forward(Loss{{0, share(group)}});
    loss.backward({}, true);
    std::string report = net->gradients();
    loss.backward();
    return report + "; " + net->gradients();
  });
  EXPECT_EQ(reports, same(2, "3 3; 6 6"));
}

// PyTorch: the first of the two consumes what the synchronised forward armed, the second is local.
TEST(Passes, OfALocalForwardStayLocalWhateverForwardsComeBetween) {
  const auto reports = run_world(2, [](const Group& group) {
    Terms net(1);
    DistributedDataParallel ddp(net, {.process_group = group});
    at::Tensor local;
    {
      const auto guard = ddp.no_sync();
      local = ddp.forward(Loss{{0, share(group)}});
    }
    const auto synchronised = ddp.forward(Loss{{0, 10 * share(group)}});
    local.backward();
    std::string report = net->gradients();
    synchronised.backward();
    return report + "; " + net->gradients();
  });
  EXPECT_EQ(reports, (std::vector<std::string>{"2 2; 33 33", "4 4; 33 33"}));
}

TEST(Passes, ThroughALocalAndASynchronisedGraphAreReduced) {
  for (const bool local_first : {false, true}) {
    const auto reports = run_world(2, [&](const Group& group) {
      Terms net(2);
      DistributedDataParallel ddp(net, {.process_group = group});
      at::Tensor local;
      {
        const auto guard = ddp.no_sync();
        local = ddp.forward(Loss{{0, share(group)}});
      }
      const auto synchronised = ddp.forward(Loss{{1, 10 * share(group)}});
      (local_first ? local + synchronised : synchronised + local).backward();
      return net->gradients();
    });
    EXPECT_EQ(reports, same(2, "3 3 | 30 30"));
  }
}

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

TEST(Passes, OfAutogradGradAreNoneOfOurs) {
  const auto reports = run_world(2, [](const Group& group) {
    Terms net(1);
    DistributedDataParallel ddp(net, {.process_group = group});
    std::string report;
    for (int step = 0; step < 2; ++step) {
      net->zero_grad();
      const auto loss = ddp.forward(Loss{{0, share(group)}});
      const auto alone = torch::autograd::grad({loss}, {net->weights[0]}, {}, true);
      report += numbers(alone[0]) + (net->weights[0].grad().defined() ? " defined" : " none");
      loss.backward();
      report += " " + net->gradients() + "; ";
    }
    return report;
  });
  EXPECT_EQ(reports, (std::vector<std::string>{"2 2 none 3 3; 2 2 none 3 3; ",
                                               "4 4 none 3 3; 4 4 none 3 3; "}));
}

TEST(Passes, MayRunOnAnyThread) {
  const auto reports = run_world(2, [](const Group& group) {
    Terms net(3);
    DistributedDataParallel ddp(net, {.process_group = group, .bucket_cap_mb = 0.0});
    std::string report;
    for (int step = 0; step < 3; ++step) {
      net->zero_grad();
      const auto loss = ddp.forward(Loss{{0, share(group)}, {1, 10 * share(group)}, {2, 0.0}});
      std::thread([&] { loss.backward(); }).join();
      report += net->gradients() + "; ";
    }
    return report;
  });
  const std::string step = "3 3 | 30 30 | 0 0; ";
  EXPECT_EQ(reports, same(2, step + step + step));
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

// Evaluation of either kind between steps of training, with and without the lag.
TEST(Passes, GoOnAfterEvaluation) {
  for (const bool lag : {true, false}) {
    const auto reports = run_world(2, [&](const Group& group) {
      torch::manual_seed(3);
      torch::nn::Sequential net(torch::nn::Linear(2, 3), torch::nn::BatchNorm1d(3));
      DistributedDataParallel ddp(net, {.process_group = group, .buffer_sync_lag = lag});
      const auto input = torch::arange(8.0).view({4, 2}) + group->getRank();
      const auto train = [&] {
        net->train();
        net->zero_grad();
        ddp.forward(input).pow(2).sum().backward();
        std::string text;
        for (const at::Tensor& each : net->parameters()) {
          text += each.is_inference() || each.grad().is_inference() ? "inference! " : "";
          text += numbers(each.grad()) + " ";
        }
        return text;
      };
      std::string report = train();
      net->eval();
      {
        const c10::InferenceMode inference;
        ddp.forward(input);
        ddp.forward(input);
      }
      report += "; " + train();
      net->eval();
      {
        const torch::NoGradGuard no_grad;
        ddp.forward(input);
      }
      report += "; " + train() + "; " + train();
      for (const at::Tensor& each : net->buffers()) {
        if (each.is_inference()) report += "inference!";
      }
      return report;
    });
    EXPECT_EQ(reports[0], reports[1]);
    EXPECT_EQ(reports[0].find("inference!"), std::string::npos) << reports[0];
    EXPECT_GT(reports[0].size(), 100U);
  }
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
