// On a device with streams, simulated: averages, in an order of streams that nothing can upset, and
// without the host waiting for the device.
#include "ddp/distributed_data_parallel.h"
#include "harness/accelerator/accelerator.h"
#include "tests/ddp/devices.h"
#include "tests/ddp/modules.h"

#include <c10/core/StreamGuard.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

namespace lockstep {
namespace {

using testing::all_ways;
using testing::default_stream;
using testing::forgotten;
using testing::Group;
using testing::hand_over;
using testing::numbers;
using testing::run_on_devices;
using testing::same;
using testing::side_stream;
using testing::Terms;
using testing::waits_since;
using Loss = testing::TermsImpl::Loss;

constexpr double kTinyCap = 16.0 / (1 << 20);

TEST(OnADevice, GradientsAreAveragesInEveryWayToHoldThem) {
  for (const int world : {1, 2, 3}) {
    const auto reports = run_on_devices(world, [&](const Group& group) {
      std::string report;
      for (const auto& options : all_ways({.process_group = group, .bucket_cap_mb = kTinyCap})) {
        Terms net(4);
        net->to(accelerator_device());
        DistributedDataParallel ddp(net, options);
        for (int step = 1; step <= 4; ++step) {
          net->zero_grad();
          const std::size_t mark = host_wait_count();
          const double c = world * (group->getRank() + 1.0) * step;
          ddp.forward(Loss{{0, c}, {1, 10 * c}, {2, 100 * c}, {3, 1000 * c}}).backward();
          report += waits_since(mark);
          const double sum = world * (world + 1) / 2.0 * step;
          for (std::size_t i = 0; i < 4; ++i) {
            const at::Tensor gradient = net->weights[i].grad();
            const double right = sum * std::pow(10.0, static_cast<double>(i));
            if (!gradient.cpu().eq(right).all().item<bool>()) report += " " + numbers(gradient);
          }
        }
        ddp->check_reduction_finished();
      }
      return report + forgotten();
    });
    EXPECT_EQ(reports, same(world, ""));
  }
}

TEST(OnADevice, AStepOnAStreamOfItsOwnNeedsNoOtherOrder) {
  const auto reports = run_on_devices(2, [&](const Group& group) {
    std::string report;
    for (const auto& options : all_ways({.process_group = group, .bucket_cap_mb = kTinyCap})) {
      Terms net(3);
      net->to(accelerator_device());
      DistributedDataParallel ddp(net, options);
      torch::optim::SGD optimizer(net->parameters(), 0.5);
      const c10::Stream first = side_stream();
      const c10::Stream second = side_stream();
      for (int step = 0; step < 4; ++step) {
        // Each step on another stream, which waits for the one before as a program must.
        const c10::Stream& stream = step % 2 == 0 ? first : second;
        hand_over(step == 0 ? default_stream() : step % 2 == 0 ? second : first, stream);
        const c10::StreamGuard guard(stream);
        optimizer.zero_grad(/*set_to_none=*/step > 1);
        ddp.forward(Loss{{0, 2.0}, {1, 4.0}, {2, 8.0}}).backward();
        optimizer.step();
      }
      const c10::StreamGuard guard(second);
      report += numbers(net->weights[2].cpu()) + ";";
    }
    return report + forgotten();
  });
  EXPECT_EQ(reports.front().find("HAZARD"), std::string::npos) << reports.front();
  EXPECT_EQ(reports, same(2, reports.front()));
}

// Two terms of one loss are made on two streams; autograd runs their backward functions there.
TEST(OnADevice, GradientsOfOneBucketMayComeFromSeveralStreams) {
  const auto reports = run_on_devices(2, [&](const Group& group) {
    std::string report;
    for (const auto& options : testing::ways_to_hold({.process_group = group})) {
      Terms net(2);
      net->to(accelerator_device());
      DistributedDataParallel ddp(net, options);
      const c10::Stream main = side_stream();
      const c10::Stream side = side_stream();
      const c10::StreamGuard guard(main);
      hand_over(default_stream(), main);
      for (int step = 0; step < 3; ++step) {
        net->zero_grad();
        const at::Tensor one = ddp.forward(Loss{{0, 2.0}});
        hand_over(main, side);
        at::Tensor other;
        {
          const c10::StreamGuard there(side);
          other = (net->weights[1] * 6.0).sum();
        }
        hand_over(side, main);
        (one + other).backward();
        report += net->gradients() + ";";
      }
    }
    return report + forgotten();
  });
  std::string right;
  for (int i = 0; i < 12; ++i) right += "2 2 | 6 6;";
  EXPECT_EQ(reports, same(2, right));
}

// Autograd's thread of the device runs the pass that records a gradient's functions, and ends it.
TEST(OnADevice, AGradientOfAGradientIsAveraged) {
  struct Product : torch::nn::Module {
    Product() {
      for (const char* name : {"first", "second"})
        weights.push_back(register_parameter(name, torch::full({1}, 3.0, at::kDouble)));
    }
    at::Tensor forward(const at::Tensor& input) { return input * weights[0] * weights[1]; }
    std::vector<at::Tensor> weights;
  };
  const auto reports = run_on_devices(2, [&](const Group& group) {
    const auto net = std::make_shared<Product>();
    net->to(accelerator_device());
    net->weights = net->parameters();
    DistributedDataParallel ddp(net, {.process_group = group});
    std::string report;
    const auto backward_of_slope = [&](const auto& forward, double share) {
      net->zero_grad();
      const auto input = torch::full({1}, share, torch::dtype(at::kDouble))
                             .to(accelerator_device())
                             .requires_grad_();
      const auto slope = torch::autograd::grad({forward(input)}, {input}, {},
                                               /*retain_graph=*/true, /*create_graph=*/true);
      (slope[0] * share).sum().backward();
      report += numbers(net->weights[0].grad().cpu()) + "; ";
    };
    for (int step = 0; step < 2; ++step) {
      backward_of_slope([&](const at::Tensor& input) { return ddp.forward(input); },
                        2.0 * (group->getRank() + 1));
      if (group->getRank() == 0)
        backward_of_slope([&](const at::Tensor& input) { return net->forward(input); }, 100.0);
    }
    return report + forgotten();
  });
  EXPECT_EQ(reports, (std::vector<std::string>{"9; 300; 9; 300; ", "9; 9; "}));
}

TEST(OnADevice, AModuleMayBeSplitOverSeveral) {
  const auto reports = run_on_devices(2, [&](const Group& group) {
    Terms net(4);
    for (std::size_t i = 0; i < 4; ++i) {
      const auto index = static_cast<c10::DeviceIndex>(i % 2);
      net->weights[i].set_data(net->weights[i].to(accelerator_device(index)));
    }
    DistributedDataParallel ddp(net, {.process_group = group});
    std::string report;
    for (int step = 0; step < 3; ++step) {
      net->zero_grad();
      at::Tensor loss = torch::zeros({}, at::kDouble);
      const double c = 2.0 * (group->getRank() + 1);
      // One forward of DDP arms the pass; terms meet on the host.
      for (int i = 0; i < 4; ++i) loss = loss + net->forward(Loss{{i, c * (i + 1)}}).cpu();
      const auto armed = ddp.forward(Loss{{0, 0.0}});
      (loss + armed.cpu()).backward();
      report += net->gradients() + ";";
    }
    report += std::to_string(ddp->bucket_plan().size());
    return report + forgotten();
  });
  EXPECT_EQ(reports,
            same(2, "3 3 | 6 6 | 9 9 | 12 12;3 3 | 6 6 | 9 9 | 12 12;3 3 | 6 6 | 9 9 | 12 12;2"));
}

TEST(OnADevice, BuffersFollowRankZeroAndTheHostDoesNotWait) {
  const auto reports = run_on_devices(3, [&](const Group& group) {
    testing::Counting net(group->getRank() + 1.0);
    net->to(accelerator_device());
    DistributedDataParallel ddp(net, {.process_group = group});
    std::string report;
    for (int step = 0; step < 3; ++step) {
      const at::Tensor input = torch::ones({1}, at::kDouble).to(accelerator_device());
      const std::size_t mark = host_wait_count();
      net->named_buffers();
      const at::Tensor loss = (net->weight * input).sum();
      report += waits_since(mark);
      ddp.forward(input, group->getRank() + 1.0).backward();
      report += net->found + ";";
    }
    return report + forgotten();
  });
  EXPECT_EQ(reports, same(3, "1 1 | 1 | 1;2 2 | 2 | 1;3 3 | 3 | 1;"));
}

TEST(OnADevice, WhatTheHostMustKnowIsKnown) {
  const auto reports = run_on_devices(2, [&](const Group& group) {
    std::string report;
    for (const bool is_static : {false, true}) {
      Terms net(3);
      net->to(accelerator_device());
      DistributedDataParallel ddp(net, {.process_group = group,
                                        .find_unused_parameters = !is_static,
                                        .static_graph = is_static});
      for (int step = 0; step < 3; ++step) {
        net->zero_grad();
        const double c = 2.0 * (group->getRank() + 1);
        ddp.forward(group->getRank() == 0 ? Loss{{0, c}, {1, c}} : Loss{{0, c}}).backward();
        report += net->gradients() + ";";
      }
    }
    return report + forgotten();
  });
  const std::string step = "3 3 | 1 1 | none;";
  EXPECT_EQ(reports, same(2, step + step + step + step + step + step));
}

}  // namespace
}  // namespace lockstep
