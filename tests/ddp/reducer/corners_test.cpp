// Corners of a pass that planted mistakes survived in: graphs of both kinds side by side, gradients
// that stay views, parameters that are used by some passes and not by others.
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
using testing::ways_to_hold;
using Loss = testing::TermsImpl::Loss;
using Options = DistributedDataParallelOptions;

struct CutGradient : torch::autograd::Function<CutGradient> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x) {
    return x.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 torch::autograd::variable_list) {
    return {at::Tensor()};
  }
};

TEST(Corners, LocalGraphBesideAnArmedOne) {
  const auto reports = run_world(2, [](const Group& group) {
    Terms net(1);
    DistributedDataParallel ddp(net, {.process_group = group});
    const double c = share(group);
    const auto armed = ddp.forward(Loss{{0, c}});
    at::Tensor local;
    {
      const auto guard = ddp.no_sync();
      local = ddp.forward(Loss{{0, 10 * c}});
    }
    local.backward();
    std::string report = net->gradients();
    net->zero_grad();
    armed.backward();
    return report + "; " + net->gradients();
  });
  EXPECT_EQ(reports, (std::vector<std::string>{"20 20; 3 3", "40 40; 3 3"}));
}

TEST(Corners, AutogradGradIsNoPass) {
  struct Scaled : torch::nn::Module {
    at::Tensor weight = register_parameter("weight", torch::ones({1}, at::kDouble));
    at::Tensor forward(const at::Tensor& x) { return (x * weight).sum(); }
  };
  const auto reports = run_world(2, [](const Group& group) {
    const auto net = std::make_shared<Scaled>();
    DistributedDataParallel ddp(net, {.process_group = group});
    const auto x = torch::full({1}, share(group), torch::dtype(at::kDouble).requires_grad(true));
    const auto out = ddp.forward(x);
    const auto g = torch::autograd::grad({out}, {x}, {}, true);
    out.backward();
    return numbers(g[0]) + " " + numbers(net->weight.grad());
  });
  EXPECT_EQ(reports, same(2, "1 3"));
}

TEST(Corners, TwoForwardsThatUseDifferentParameters) {
  const auto reports = run_world(2, [](const Group& group) {
    Terms net(3);
    DistributedDataParallel ddp(net, {.process_group = group, .find_unused_parameters = true});
    const double c = share(group);
    const auto a = ddp.forward(Loss{{0, c}});
    const auto b = ddp.forward(Loss{{1, c}});
    (a + b).backward();
    return net->gradients();
  });
  EXPECT_EQ(reports, same(2, "3 3 | 3 3 | none"));
}

TEST(Corners, UndefinedEverywhereIsUsedByNobody) {
  struct Partly : torch::nn::Module {
    at::Tensor a = register_parameter("a", torch::ones({1}, at::kDouble));
    at::Tensor b = register_parameter("b", torch::ones({1}, at::kDouble));
    at::Tensor forward(double c) { return (a * c + CutGradient::apply(b * c)).sum(); }
  };
  const auto reports = run_world(2, [](const Group& group) {
    const auto net = std::make_shared<Partly>();
    DistributedDataParallel ddp(net, {.process_group = group, .find_unused_parameters = true});
    ddp.forward(share(group)).backward();
    return numbers(net->a.grad()) + (net->b.grad().defined() ? " defined" : " none");
  });
  EXPECT_EQ(reports, same(2, "3 none"));
}

TEST(Corners, UsedInsideNoSyncAlone) {
  for (const Options& way : ways_to_hold({.find_unused_parameters = true})) {
    const auto reports = run_world(2, [&](const Group& group) {
      Options options = way;
      options.process_group = group;
      Terms net(2);
      DistributedDataParallel ddp(net, options);
      const double c = share(group);
      {
        const auto guard = ddp.no_sync();
        ddp.forward(Loss{{0, c}, {1, 10 * c}}).backward();
      }
      ddp.forward(Loss{{0, c}}).backward();
      return net->gradients();
    });
    EXPECT_EQ(reports, same(2, "6 6 | 30 30"));
  }
}

TEST(Corners, KeptGradientsOfUnusedParametersStay) {
  for (const Options& way : ways_to_hold({.find_unused_parameters = true})) {
    const auto reports = run_world(2, [&](const Group& group) {
      Options options = way;
      options.process_group = group;
      Terms net(2);
      DistributedDataParallel ddp(net, options);
      const double c = share(group);
      ddp.forward(Loss{{0, c}, {1, 10 * c}}).backward();
      net->zero_grad(false);
      net->weights[1].mutable_grad().fill_(c);  // in place: it stays a view
      ddp.forward(Loss{{0, c}}).backward();
      return net->gradients();
    });
    EXPECT_EQ(reports, (std::vector<std::string>{"3 3 | 2 2", "3 3 | 4 4"}));
  }
}

TEST(Corners, GradientsZeroedInPlace) {
  for (const Options& way : ways_to_hold({})) {
    const auto reports = run_world(2, [&](const Group& group) {
      Options options = way;
      options.process_group = group;
      Terms net(2);
      DistributedDataParallel ddp(net, options);
      const double c = share(group);
      std::string report;
      for (int step = 0; step < 3; ++step) {
        net->zero_grad(false);
        ddp.forward(Loss{{0, c}, {1, 10 * c}}).backward();
        report += net->gradients() + "; ";
      }
      return report;
    });
    EXPECT_EQ(reports, same(2, "3 3 | 30 30; 3 3 | 30 30; 3 3 | 30 30; "));
  }
}

TEST(Corners, AGraphThatIsGoneReadsNothing) {
  const auto reports = run_world(2, [](const Group& group) {
    torch::nn::BatchNorm1d net(torch::nn::BatchNorm1dOptions(2));
    DistributedDataParallel ddp(net, {.process_group = group});
    const auto input = torch::arange(6.0).view({3, 2}) * (group->getRank() + 1);
    net->eval();
    ddp.forward(input).sum().backward();
    net->train();
    net->zero_grad();
    const auto first = ddp.forward(input);
    const auto second = ddp.forward(input);
    (first.sum() + second.sum()).backward();
    return numbers(net->bias.grad());
  });
  EXPECT_EQ(reports, (std::vector<std::string>(2, "6 6")));
}

}  // namespace
}  // namespace lockstep
