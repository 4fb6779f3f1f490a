// Backward passes that go through no output that is seen: of what a module kept, of the bare
// module, of parameters, of outputs that cannot be seen.
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

// The module keeps what its loss is made of; the pass goes through no output.
TEST(BarePasses, OfWhatASynchronisedForwardKeptAreReduced) {
  struct Keeping : torch::nn::Module {
    at::Tensor weight = register_parameter("weight", torch::ones({1}, at::kDouble));
    at::Tensor kept;
    at::Tensor forward(double factor) {
      kept = (weight * factor).sum();
      return weight * 1000.0;
    }
  };
  const auto reports = run_world(2, [](const Group& group) {
    const auto net = std::make_shared<Keeping>();
    DistributedDataParallel ddp(net, {.process_group = group});
    std::string report;
    for (int step = 0; step < 3; ++step) {
      net->zero_grad();
      ddp.forward(share(group));
      const auto kept = net->kept;
      {
        const torch::NoGradGuard no_grad;
        ddp.forward(5.0);
      }
      kept.backward({}, /*keep_graph=*/true);
      report += numbers(net->weight.grad()) + " ";
      kept.backward();
      report += numbers(net->weight.grad()) + " ";
    }
    const auto guard = ddp.no_sync();
    net->zero_grad();
    ddp.forward(share(group));
    net->kept.backward();
    return report + numbers(net->weight.grad());
  });
  EXPECT_EQ(reports, (std::vector<std::string>{"3 6 3 6 3 6 2", "3 6 3 6 3 6 4"}));
}

// PyTorch, too, keeps the 100 of rank 0 local where no forward waits for its backward.
TEST(BarePasses, OfTheBareModuleOnOneRankStayLocalAtEveryMoment) {
  for (const bool is_static : {false, true}) {
    for (const std::string moment : {"before forward", "before backward", "after backward"}) {
      const auto reports = run_world(2, [&](const Group& group) {
        Terms net(2);
        DistributedDataParallel ddp(net, {.process_group = group, .static_graph = is_static});
        std::string report;
        const auto probe = [&](const std::string& now) {
          if (now == moment && group->getRank() == 0) net->forward(Loss{{0, 100.0}}).backward();
          report += now == "before forward" ? "" : net->gradients() + "; ";
        };
        for (int step = 0; step < 3; ++step) {
          net->zero_grad();
          probe("before forward");
          const auto loss = ddp.forward(Loss{{0, share(group)}, {1, 1.0}});
          probe("before backward");
          loss.backward();
          probe("after backward");
        }
        return report;
      });
      using Reports = std::vector<std::string>;
      const auto step =
          moment == "after backward"
              ? Reports{"none | none; 103 103 | 1 1; ", "none | none; 3 3 | 1 1; "}
              : Reports{"100 100 | none; 53 53 | 1 1; ", "none | none; 53 53 | 1 1; "};
      EXPECT_EQ(reports, (std::vector<std::string>{step[0] + step[0] + step[0],
                                                   step[1] + step[1] + step[1]}))
          << moment;
    }
  }
}

TEST(BarePasses, OfTheParametersAloneOrOfAPenaltyOfTheBareModuleStayLocal) {
  const auto reports = run_world(2, [](const Group& group) {
    torch::nn::Linear net(torch::nn::LinearOptions(1, 1).bias(false));
    torch::nn::init::ones_(net->weight);
    DistributedDataParallel ddp(net, {.process_group = group});
    std::string report;
    for (int step = 0; step < 2; ++step) {
      net->zero_grad();
      ddp.forward(torch::full({1, 1}, share(group))).sum().backward();
      if (group->getRank() == 0) {
        net->weight.square().sum().backward();
        const auto input = torch::full({1, 1}, 5.0, torch::requires_grad());
        const auto slope = torch::autograd::grad({net->forward(input).pow(2).sum()}, {input}, {},
                                                 /*retain_graph=*/true, /*create_graph=*/true);
        slope[0].sum().backward();  // of 2 w^2 x
      }
      report += numbers(net->weight.grad()) + " ";
    }
    return report;
  });
  EXPECT_EQ(reports, (std::vector<std::string>{"25 25 ", "3 3 "}));
}

// A pass from gradients of a synchronised forward runs what that forward recorded.
TEST(BarePasses, OfAPenaltyOfASynchronisedForwardAreReduced) {
  const auto reports = run_world(2, [](const Group& group) {
    torch::nn::Linear net(torch::nn::LinearOptions(1, 1).bias(false));
    torch::nn::init::ones_(net->weight);
    DistributedDataParallel ddp(net, {.process_group = group});
    std::string report;
    for (int step = 0; step < 2; ++step) {
      net->zero_grad();
      const auto input = torch::full({1, 1}, share(group), torch::requires_grad());
      const auto slope = torch::autograd::grad({ddp.forward(input).pow(2).sum()}, {input}, {},
                                               /*retain_graph=*/true, /*create_graph=*/true);
      slope[0].sum().backward();
      report += numbers(net->weight.grad()) + " ";
    }
    return report;
  });
  EXPECT_EQ(reports, same(2, "12 12 "));
}

// The slope of x w0 w1 holds products of the weights alone: its graph has no function of a forward,
// only those that the pass through the output has recorded.
struct Product : torch::nn::Module {
  at::Tensor first = register_parameter("first", torch::full({1, 1}, 2.0, at::kDouble));
  at::Tensor second = register_parameter("second", torch::full({1, 1}, 3.0, at::kDouble));
  at::Tensor forward(const at::Tensor& input) { return input.mm(first).mm(second); }
};

// Runs backward of `share` times the slope, through the output that `forward` returns.
template <class Forward>
void backward_of_slope(const Forward& forward, double share) {
  const auto input = torch::full({1, 1}, share, torch::requires_grad().dtype(at::kDouble));
  const auto slope = torch::autograd::grad({forward(input)}, {input}, {}, /*retain_graph=*/true,
                                           /*create_graph=*/true);
  (slope[0] * share).sum().backward();
}

TEST(BarePasses, OfAGradientWhoseGraphHasNoFunctionOfItsForwardAreReduced) {
  const auto reports = run_world(2, [](const Group& group) {
    const auto net = std::make_shared<Product>();
    DistributedDataParallel ddp(net, {.process_group = group});
    const auto forward = [&](const at::Tensor& input) { return ddp.forward(input); };
    std::string report;
    const auto note = [&] {
      report += numbers(net->first.grad()) + " " + numbers(net->second.grad()) + "; ";
      net->zero_grad();
    };
    for (int step = 0; step < 2; ++step) {
      backward_of_slope(forward, share(group));
      note();
    }
    const auto guard = ddp.no_sync();
    backward_of_slope(forward, share(group));
    note();
    return report;
  });
  EXPECT_EQ(reports, (std::vector<std::string>{"9 6; 9 6; 6 4; ", "9 6; 9 6; 12 8; "}));
}

// The bare module's passes of one rank, between passes of all: none of them is taken for another.
TEST(BarePasses, OfAGradientOfTheBareModuleStayLocal) {
  const auto reports = run_world(2, [](const Group& group) {
    const auto net = std::make_shared<Product>();
    DistributedDataParallel ddp(net, {.process_group = group});
    const auto forward = [&](const at::Tensor& input) { return ddp.forward(input); };
    const auto bare = [&](const at::Tensor& input) { return net->forward(input); };
    std::string report;
    for (int step = 0; step < 2; ++step) {
      const auto loss = forward(torch::ones({1, 1}, at::kDouble));
      if (group->getRank() == 0) backward_of_slope(bare, 100.0);
      net->zero_grad();
      backward_of_slope(forward, share(group));
      if (group->getRank() == 0) backward_of_slope(bare, 100.0);
      report += numbers(net->first.grad()) + "; ";
      net->zero_grad();
      loss.sum().backward();
      report += numbers(net->first.grad()) + "; ";
      net->zero_grad();
    }
    return report;
  });
  EXPECT_EQ(reports, (std::vector<std::string>{"309; 3; 309; 3; ", "9; 3; 9; 3; "}));
}

struct Unseen {
  at::Tensor value;
};
struct Hiding : torch::nn::Module {
  at::Tensor weight = register_parameter("weight", torch::ones({1}, at::kDouble));
  Unseen forward(double factor) { return {(weight * factor).sum()}; }
};

// The last forward decides, once, and graphs that are known go before it.
TEST(BarePasses, OfOutputsThatCannotBeSeenAreThoseOfTheirForwards) {
  const auto reports = run_world(2, [](const Group& group) {
    const auto net = std::make_shared<Hiding>();
    DistributedDataParallel ddp(net, {.process_group = group});
    std::string report;
    const auto backward = [&](const Unseen& output) {
      output.value.backward({}, /*keep_graph=*/true);
      report += numbers(net->weight.grad()) + " ";
      net->zero_grad();
    };
    const auto probe = [&] {
      if (group->getRank() == 0) backward(net->forward(100));
    };
    const auto first = ddp.forward(share(group));
    const auto second = ddp.forward(10 * share(group));
    const auto local = [&] {
      const auto guard = ddp.no_sync();
      return ddp.forward(100 * share(group));
    }();
    probe();
    backward(local);
    backward(second);
    probe();
    backward(first);
    backward(first);
    ddp.forward(share(group));
    {
      const torch::NoGradGuard no_grad;
      ddp.forward(5);
    }
    probe();
    return report;
  });
  EXPECT_EQ(reports, (std::vector<std::string>{"100 200 30 100 3 3 100 ", "400 30 3 3 "}));
}

TEST(BarePasses, OfAParameterThatForwardReturnsAreReducedOnce) {
  struct Table : torch::nn::Module {
    at::Tensor weight = register_parameter("weight", torch::ones({1}, at::kDouble));
    at::Tensor forward() { return weight; }
  };
  const auto reports = run_world(2, [](const Group& group) {
    const auto net = std::make_shared<Table>();
    DistributedDataParallel ddp(net, {.process_group = group});
    std::string report;
    for (int step = 0; step < 2; ++step) {
      net->zero_grad();
      (ddp.forward() * share(group)).backward();
      report += numbers(net->weight.grad()) + " ";
      if (group->getRank() == 0) (net->forward() * 100).backward();
      report += numbers(net->weight.grad()) + " ";
    }
    return report;
  });
  EXPECT_EQ(reports, (std::vector<std::string>{"3 103 3 103 ", "3 3 3 3 "}));
}

TEST(BarePasses, StayLocalWhereForwardReturnsAParameterBesideAnOutput) {
  struct Tied : torch::nn::Module {
    at::Tensor weight = register_parameter("weight", torch::ones({1}, at::kDouble));
    std::pair<at::Tensor, at::Tensor> forward(double factor) { return {weight * factor, weight}; }
  };
  const auto reports = run_world(2, [](const Group& group) {
    const auto net = std::make_shared<Tied>();
    DistributedDataParallel ddp(net, {.process_group = group});
    const auto [output, weight] = ddp.forward(share(group));
    if (group->getRank() == 0) net->forward(100).first.backward();
    (output * weight).backward();
    return numbers(net->weight.grad());
  });
  EXPECT_EQ(reports, (std::vector<std::string>{"56", "56"}));  // (100 + 2 * 2 + 2 * 4) / 2
}

TEST(BarePasses, OfTheBareModuleStayLocalInAJoin) {
  const auto reports = run_world(2, [](const Group& group) {
    Terms net(1);
    DistributedDataParallel ddp(net, {.process_group = group});
    auto join = ddp.join();
    std::string report;
    for (int step = 0; step < 1 + group->getRank(); ++step) {
      net->zero_grad();
      ddp.forward(Loss{{0, share(group)}}).backward();
      report += net->gradients() + " ";
      if (group->getRank() == 1) net->forward(Loss{{0, 100.0}}).backward();
      report += net->gradients() + "; ";
    }
    join.finish();
    return report;
  });
  EXPECT_EQ(reports, (std::vector<std::string>{"3 3 3 3; ", "3 3 103 103; 2 2 102 102; "}));
}

}  // namespace
}  // namespace lockstep
