// Backward passes that an exception ends on the caller's thread while a device is still at work in
// them.
#include "ddp/distributed_data_parallel.h"
#include "ddp/errors.h"
#include "harness/accelerator/accelerator.h"
#include "tests/ddp/devices.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/torch.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <thread>

namespace lockstep {
namespace {

using testing::forgotten;
using testing::Group;
using testing::numbers;
using testing::run_on_devices;
using testing::same;

// A weight on each of two devices, so that autograd has three threads at work.
struct SplitImpl : torch::nn::Module {
  SplitImpl() {
    for (c10::DeviceIndex index = 0; index < 2; ++index) {
      const auto options = at::TensorOptions(at::kDouble).device(accelerator_device(index));
      weights.push_back(register_parameter("w" + std::to_string(index), at::ones({2}, options)));
    }
  }
  at::Tensor forward(double factor) {
    return (weights[0] * factor).sum().cpu() + (weights[1] * factor).sum().cpu();
  }
  std::string gradients() const {
    return numbers(weights[0].grad().cpu()) + " | " + numbers(weights[1].grad().cpu());
  }
  std::vector<at::Tensor> weights;
};
TORCH_MODULE(Split);

// Signals once, to all that wait for it.
class Signal {
 public:
  void give() {
    const std::lock_guard lock(mutex_);
    is_given_ = true;
    changed_.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return is_given_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_given_ = false;
};

// The state that hooks share with the test. It stays where it is: a hook may be running.
struct Plot {
  Signal is_at_work, go_on, is_over;
  std::atomic<bool> is_on = true;
  std::atomic<bool> leaves_the_gradient_out = false;
};

// Goes with a pass, behind what was put there before it.
struct TellsOfTheEnd {
  explicit TellsOfTheEnd(std::shared_ptr<Plot> plot) : plot(std::move(plot)) {}
  ~TellsOfTheEnd() { plot->is_over.give(); }
  std::shared_ptr<Plot> plot;
};

// A backward pass that throws on this thread while that of a device is in the midst of it, and
// stays there until it may go on. Operations that were made first come last in backward.
std::string thrown_in(DistributedDataParallel<SplitImpl>& ddp, const Split& net,
                      const std::shared_ptr<Plot>& plot) {
  net->weights[0].register_hook([plot](const at::Tensor& gradient) {
    if (plot->is_on) {
      torch::autograd::Engine::get_default_engine().queue_callback(
          [goes = std::make_shared<TellsOfTheEnd>(plot)] {});
      plot->is_at_work.give();
      plot->go_on.wait();
      if (plot->leaves_the_gradient_out) throw std::runtime_error("too late for anybody");
    }
    return gradient;
  });
  const at::Tensor on_cpu = at::ones({}, at::TensorOptions(at::kDouble)).requires_grad_() * 2;
  on_cpu.register_hook([plot](const at::Tensor& gradient) -> at::Tensor {
    plot->is_at_work.wait();
    throw std::runtime_error("planted on " + gradient.device().str());
  });
  std::string report = "nothing was thrown";
  try {
    (ddp.forward(3.0) + on_cpu).backward();
  } catch (const std::runtime_error& error) {
    report = error.what();
  }
  plot->is_on = false;
  return report;
}

// `act`, and while it runs the device continues.
void while_the_device_goes_on(Plot& plot, const std::function<void()>& act) {
  Signal begins;
  std::thread device([&] {
    begins.wait();
    plot.go_on.give();
  });
  begins.give();
  try {
    act();
  } catch (const std::exception&) {
    device.join();
    throw;
  }
  device.join();
}

void step(DistributedDataParallel<SplitImpl>& ddp, Split net) {
  net->zero_grad();
  ddp.forward(3.0).backward();
}

TEST(DevicePasses, TheNextForwardReportsOneThatHadNotEndedWhenBackwardThrew) {
  const auto reports = run_on_devices(2, [](const Group& group) {
    Split net;
    DistributedDataParallel ddp(net, {.process_group = group});
    step(ddp, net);
    const auto plot = std::make_shared<Plot>();
    std::string report = thrown_in(ddp, net, plot) + "; ";
    try {
      while_the_device_goes_on(*plot, [&] { ddp.forward(3.0); });
    } catch (const UnfinishedReductionError& error) {
      const std::string sentence = error.what();
      report += sentence.substr(sentence.find(": ") + 2);
    }
    return report + forgotten();
  });
  for (const auto& report : reports) {
    EXPECT_TRUE(report.starts_with("planted on cpu; an earlier reduction failed")) << report;
    EXPECT_NE(report.find("an exception was thrown in the backward pass"), std::string::npos)
        << report;
  }
}

TEST(DevicePasses, WhatBeginsAnewBeginsBehindIt) {
  const auto reports = run_on_devices(2, [](const Group& group) {
    Split net;
    DistributedDataParallel ddp(net, {.process_group = group});
    step(ddp, net);
    const auto plot = std::make_shared<Plot>();
    std::string report = thrown_in(ddp, net, plot) + "; ";
    while_the_device_goes_on(*plot, [&] { ddp->update_process_group(group); });
    for (int each = 0; each < 3; ++each) step(ddp, net);
    ddp->check_reduction_finished();
    return report + net->gradients() + forgotten();
  });
  EXPECT_EQ(reports, same(2, "planted on cpu; 3 3 | 3 3"));
}

// Where it could not be waited for: it ends in the midst of the next pass, and is not taken for it.
TEST(DevicePasses, AnEndThatComesAfterARestartIsNobodys) {
  const auto reports = run_on_devices(1, [](const Group& group) {
    Split net;
    DistributedDataParallel ddp(
        net, {.process_group = group, .timeout = std::chrono::milliseconds(500)});
    const auto plot = std::make_shared<Plot>();
    plot->leaves_the_gradient_out = true;
    const std::string report = thrown_in(ddp, net, plot) + "; ";
    ddp->update_process_group(group);
    net->weights[1].register_hook([plot](const at::Tensor& gradient) {
      plot->go_on.give();
      plot->is_over.wait();
      return gradient;
    });
    step(ddp, net);
    ddp->check_reduction_finished();
    return report + net->gradients();
  });
  EXPECT_EQ(reports, same(1, "planted on cpu; 3 3 | 3 3"));
}

// Its peers have issued all of the pass when they use the group for something else.
TEST(DevicePasses, AnInstanceThatGoesLeavesItsGroupAsItsPeersDo) {
  const auto reports = run_on_devices(2, [](const Group& group) {
    Split net;
    auto ddp = std::make_unique<DistributedDataParallel<SplitImpl>>(
        net, DistributedDataParallelOptions{.process_group = group});
    step(*ddp, net);
    std::string report;
    if (group->getRank() == 0) {
      const auto plot = std::make_shared<Plot>();
      report = thrown_in(*ddp, net, plot);
      while_the_device_goes_on(*plot, [&] { ddp.reset(); });
    } else {
      ddp->forward(3.0).backward();
      ddp.reset();
    }
    std::vector<at::Tensor> sum{at::ones({7}, net->weights[0].options())};
    group->allreduce(sum)->wait();
    return report + " " + numbers(sum[0].cpu()) + forgotten();
  });
  EXPECT_EQ(reports[0], "planted on cpu 2 2 2 2 2 2 2");
  EXPECT_EQ(reports[1], " 2 2 2 2 2 2 2");
}

// One that is stuck is a sentence, and no hang.
TEST(DevicePasses, OneThatDoesNotEndIsReportedAfterTheTimeout) {
  const auto reports = run_on_devices(1, [](const Group& group) {
    Split net;
    DistributedDataParallel ddp(
        net, {.process_group = group, .timeout = std::chrono::milliseconds(500)});
    const auto plot = std::make_shared<Plot>();
    thrown_in(ddp, net, plot);
    std::string report = "nothing was thrown";
    try {
      ddp.forward(3.0);
    } catch (const UnfinishedReductionError& error) {
      report = error.what();
    }
    plot->go_on.give();
    return report;
  });
  EXPECT_TRUE(reports[0].starts_with("rank 0: the backward pass before this is not over"))
      << reports[0];
}

}  // namespace
}  // namespace lockstep
