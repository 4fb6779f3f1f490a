// Checks what backward() leaves in .grad. Local gradients are multiples of W, so averages are
// exact.
#include "ddp/distributed_data_parallel.h"
#include "ddp/errors.h"
#include "tests/ddp/forked_world.h"
#include "tests/ddp/modules.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>

namespace lockstep {
namespace {

using testing::Group;
using testing::numbers;
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

// Collectives pair up by order alone: buckets of equal size, complete in another order on each
// rank, must still travel in one order. The first step only learns rank 0's order.
TEST(Gradients, AreRightWhenRanksUseParametersInDifferentOrders) {
  for (const int world : {2, 3}) {
    const auto reports = run_world(world, [&](const Group& group) {
      Terms net(4);
      DistributedDataParallel ddp(net, {.process_group = group, .bucket_cap_mb = kTinyCap});
      std::string report;
      for (int step = 0; step < 3; ++step) {
        net->zero_grad();
        Loss loss = {{0, 6.0}, {1, 60.0}, {2, 600.0}, {3, 6000.0}};
        std::rotate(loss.begin(), loss.begin() + group->getRank(), loss.end());
        ddp.forward(loss).backward();
        report = net->gradients();
      }
      return report;
    });
    EXPECT_EQ(reports, same(world, "6 6 | 60 60 | 600 600 | 6000 6000"));
  }
}

TEST(Gradients, TravelInBucketsByRankZerosOrderOfArrival) {
  const auto reports = run_world(2, [&](const Group& group) {
    Terms net(3);
    DistributedDataParallel ddp(net, {.process_group = group, .bucket_cap_mb = kTinyCap});
    const auto plan = [&] {
      std::string text;
      for (const PlannedBucket& bucket : ddp->bucket_plan()) {
        for (const std::size_t index : bucket.gradients) text += std::to_string(index);
        text += '/';
      }
      return text;
    };
    std::string report = plan();
    // Autograd walks the terms backwards: rank 0's arrive as w1, w2, w0.
    const Loss loss = group->getRank() == 0 ? Loss{{0, 1.0}, {2, 1.0}, {1, 1.0}}
                                            : Loss{{1, 1.0}, {0, 1.0}, {2, 1.0}};
    for (int step = 0; step < 3; ++step) {
      ddp.forward(loss).backward();
      report += " " + plan();
    }
    return report;
  });
  EXPECT_EQ(reports, same(2, "012/ 012/ 1/2/0/ 1/2/0/"));
}

TEST(Gradients, OfDifferentDtypesTravelApart) {
  struct Mixed : torch::nn::Module {
    Mixed() {
      for (const auto dtype : {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16}) {
        register_parameter(std::string(c10::toString(dtype)),
                           torch::zeros({3}, torch::dtype(dtype)));
      }
    }
    at::Tensor forward(double factor) {
      at::Tensor total = torch::zeros({}, at::kDouble);
      for (const at::Tensor& each : parameters()) {
        total = total + (each * factor).sum().to(at::kDouble);
      }
      return total;
    }
  };
  const auto reports = run_world(2, [](const Group& group) {
    const auto net = std::make_shared<Mixed>();
    DistributedDataParallel ddp(net, {.process_group = group});
    std::string report;
    for (int step = 0; step < 2; ++step) {
      net->zero_grad();
      ddp.forward(group->getRank() == 0 ? 2.0 : 6.0).backward();
      for (const at::Tensor& each : net->parameters()) {
        report += numbers(each.grad()) + " " + c10::toString(each.grad().scalar_type()) + "; ";
      }
    }
    return report;
  });
  const std::string step = "4 4 4 Double; 4 4 4 Float; 4 4 4 Half; 4 4 4 BFloat16; ";
  EXPECT_EQ(reports, same(2, step + step));
}

TEST(Gradients, KeepTheStridesTheyHad) {
  struct Transposed : torch::nn::Module {
    Transposed()
        : weight(register_parameter("weight", torch::zeros({3, 2}, at::kDouble).t().detach())) {}
    at::Tensor forward(const at::Tensor& x) { return (weight * x).sum(); }
    at::Tensor weight;
  };
  const auto reports = run_world(2, [](const Group& group) {
    const auto net = std::make_shared<Transposed>();
    DistributedDataParallel ddp(net, {.process_group = group});
    const auto x = torch::arange(6, at::kDouble).view({2, 3}) * (group->getRank() * 2.0);
    std::string report;
    for (const bool transposed : {true, false}) {
      // The second time, .grad is there already, in rows.
      net->weight.mutable_grad() = transposed ? at::Tensor() : torch::zeros({2, 3}, at::kDouble);
      ddp.forward(x).backward();
      report +=
          numbers(net->weight.grad()) + " by " + c10::str(net->weight.grad().strides()) + "; ";
    }
    return report;
  });
  EXPECT_EQ(reports, same(2, "0 1 2 3 4 5 by [1, 2]; 0 1 2 3 4 5 by [3, 1]; "));
}

TEST(Gradients, AddUpLocallyUnderNoSyncAndTheirSumIsAveragedAfterIt) {
  const auto reports = run_world(2, [](const Group& group) {
    Terms net(2);
    DistributedDataParallel ddp(net, {.process_group = group, .bucket_cap_mb = kTinyCap});
    const double c = group->getRank() == 0 ? 2.0 : 4.0;
    std::string report;
    for (int round = 0; round < 2; ++round) {
      net->zero_grad();
      {
        const auto guard = ddp.no_sync();
        for (int i = 0; i < 2; ++i) {
          const auto nested = ddp.no_sync();
          ddp.forward(Loss{{0, c}, {1, 10 * c}}).backward();
        }
      }
      report += net->gradients() + " then ";
      ddp.forward(Loss{{0, c}, {1, 10 * c}}).backward();
      report += net->gradients() + "; ";
    }
    return report;
  });
  EXPECT_EQ(reports[0], "4 4 | 40 40 then 9 9 | 90 90; 4 4 | 40 40 then 9 9 | 90 90; ");
  EXPECT_EQ(reports[1], "8 8 | 80 80 then 9 9 | 90 90; 8 8 | 80 80 then 9 9 | 90 90; ");
}

TEST(Gradients, AreLocalOrNotByTheirForwardRatherThanByTheirBackward) {
  const auto reports = run_world(2, [](const Group& group) {
    Terms net(1);
    DistributedDataParallel ddp(net, {.process_group = group});
    const double c = group->getRank() == 0 ? 2.0 : 4.0;
    at::Tensor loss;
    {
      const auto guard = ddp.no_sync();
      loss = ddp.forward(Loss{{0, c}});
    }
    loss.backward();
    std::string report = net->gradients();
    net->zero_grad();
    loss = ddp.forward(Loss{{0, c}});
    {
      const auto guard = ddp.no_sync();
      loss.backward();
    }
    return report + "; " + net->gradients();
  });
  EXPECT_EQ(reports, (std::vector<std::string>{"2 2; 3 3", "4 4; 3 3"}));
}

// PyTorch leaves the second of the two local, without a word.
TEST(Gradients, OfTwoForwardsThenTwoBackwardsAreBothAveraged) {
  const auto reports = run_world(2, [](const Group& group) {
    Terms net(1);
    DistributedDataParallel ddp(net, {.process_group = group});
    const double c = group->getRank() == 0 ? 2.0 : 4.0;
    const auto first = ddp.forward(Loss{{0, c}});
    const auto second = ddp.forward(Loss{{0, 10 * c}});
    first.backward();
    second.backward();
    std::string report = net->gradients();
    net->zero_grad();
    ddp.forward(Loss{{0, c}}).backward();  // and the object is as good as before
    return report + "; " + net->gradients();
  });
  EXPECT_EQ(reports, same(2, "33 33; 3 3"));
}

// Runs a backward pass of its own, for `weight`, inside the outer one, as checkpointing does.
struct InnerPass : torch::autograd::Function<InnerPass> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input,
                            const at::Tensor* weight, double factor) {
    context->saved_data["weight"] = *weight;
    context->saved_data["factor"] = factor;
    return input.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const torch::AutoGradMode with_grad(true);
    const at::Tensor weight = context->saved_data["weight"].toTensor();
    (weight * context->saved_data["factor"].toDouble()).sum().backward();
    return {gradients[0], at::Tensor(), at::Tensor()};
  }
};

TEST(Gradients, OfANestedBackwardPassAreAveraged) {
  struct Nested : torch::nn::Module {
    Nested()
        : outer(register_parameter("outer", torch::ones({1}, at::kDouble))),
          inner(register_parameter("inner", torch::ones({1}, at::kDouble))) {}
    at::Tensor forward(double factor) {
      return InnerPass::apply(outer * factor, &inner, 10 * factor).sum();
    }
    at::Tensor outer;
    at::Tensor inner;
  };
  const auto reports = run_world(2, [](const Group& group) {
    const auto net = std::make_shared<Nested>();
    DistributedDataParallel ddp(net, {.process_group = group, .bucket_cap_mb = 0.0});
    std::string report;
    for (int step = 0; step < 3; ++step) {
      net->zero_grad();
      ddp.forward(group->getRank() == 0 ? 2.0 : 4.0).backward();
      report += numbers(net->outer.grad()) + " " + numbers(net->inner.grad()) + "; ";
    }
    return report;
  });
  EXPECT_EQ(reports, same(2, "3 30; 3 30; 3 30; "));
}

TEST(Gradients, OfAWrapperInAWrapperAreAveragedOnce) {
  const auto reports = run_world(2, [](const Group& group) {
    Terms net(2);
    DistributedDataParallel inner(net, {.process_group = group, .bucket_cap_mb = kTinyCap});
    DistributedDataParallel outer(inner, {.process_group = group, .bucket_cap_mb = kTinyCap});
    std::string report;
    for (int step = 0; step < 3; ++step) {
      net->zero_grad();
      const double c = group->getRank() == 0 ? 2.0 : 4.0;
      outer.forward(Loss{{0, c}, {1, 10 * c}}).backward();
      report += net->gradients() + "; ";
    }
    return report;
  });
  EXPECT_EQ(reports, same(2, "3 3 | 30 30; 3 3 | 30 30; 3 3 | 30 30; "));
}

TEST(Gradients, AreNotTouchedWithoutAForward) {
  const auto reports = run_world(2, [](const Group& group) {
    Terms net(1);
    DistributedDataParallel ddp(net, {.process_group = group});
    net->forward(Loss{{0, group->getRank() + 1.0}}).backward();
    {
      const torch::NoGradGuard no_grad;
      ddp.forward(Loss{{0, 5.0}});
    }
    return net->gradients();
  });
  EXPECT_EQ(reports, (std::vector<std::string>{"1 1", "2 2"}));
}

TEST(Gradients, OfAWorldOfOneAreTheBareModules) {
  const auto reports = run_world(1, [](const Group& group) {
    const auto step = [](const std::shared_ptr<torch::nn::LinearImpl>& net, const auto& forward) {
      std::string report;
      for (int i = 0; i < 3; ++i) {
        forward(torch::full({2, 3}, 0.1 + i)).pow(2).mean().backward();
        report += numbers(net->weight.grad()) + " " + numbers(net->bias.grad()) + "; ";
      }
      return report;
    };
    torch::manual_seed(1);
    torch::nn::Linear bare(3, 5);
    torch::manual_seed(1);
    torch::nn::Linear wrapped(3, 5);
    DistributedDataParallel ddp(wrapped, {.process_group = group});
    const auto expected = step(bare.ptr(), [&](const at::Tensor& x) { return bare(x); });
    const auto actual = step(wrapped.ptr(), [&](const at::Tensor& x) { return ddp.forward(x); });
    return std::string(actual == expected ? "equal" : "different");
  });
  EXPECT_EQ(reports, same(1, "equal"));
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
      return std::string("no complaint");
    });
    for (const std::string& report : reports) {
      EXPECT_NE(report.find("UsageError"), std::string::npos) << report;
      EXPECT_NE(report.find(part), std::string::npos) << report;
    }
  }
}

}  // namespace
}  // namespace lockstep
