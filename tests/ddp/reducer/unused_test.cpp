// Parameters that take no part in a loss: what cannot be found, and a rank that uses none.
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
using testing::Terms;
using Loss = testing::TermsImpl::Loss;

// A rank whose output depends on none of its parameters has no gradient to report, and still takes
// part; autograd::grad() through the same output does not.
TEST(UnusedParameters, MayBeAllOfThemOnARank) {
  const auto reports = run_world(2, [&](const Group& group) {
    Terms net(2);
    struct Mixed : torch::nn::Module {
      explicit Mixed(Terms terms) : terms(register_module("terms", std::move(terms))) {}
      at::Tensor forward(const at::Tensor& input, const Loss& loss) {
        return loss.empty() ? input * 2 : input * 2 + terms->forward(loss);
      }
      Terms terms;
    };
    DistributedDataParallel ddp(std::make_shared<Mixed>(net),
                                {.process_group = group, .find_unused_parameters = true});
    std::string report;
    for (int step = 0; step < 3; ++step) {
      net->zero_grad();
      const auto input = torch::ones({}, torch::dtype(at::kDouble).requires_grad(true));
      const auto out = ddp.forward(input, group->getRank() == 0 ? Loss{} : Loss{{0, 2.0}});
      const auto penalty = torch::autograd::grad({out}, {input}, {}, true);
      out.backward();
      report += net->gradients() + " " + numbers(penalty[0]) + "; ";
    }
    return report;
  });
  EXPECT_EQ(reports, same(2, "1 1 | none 2; 1 1 | none 2; 1 1 | none 2; "));
}

TEST(UnusedParameters, CannotBeFoundInAnOutputThatSaysNothing) {
  struct Hidden {
    at::Tensor value;
  };
  struct Secretive : torch::nn::Module {
    at::Tensor weight = register_parameter("weight", torch::ones({1}, at::kDouble));
    Hidden forward() { return {weight * 2}; }
  };
  for (const bool is_static : {false, true}) {
    const auto reports = run_world(2, [&](const Group& group) {
      DistributedDataParallel ddp(std::make_shared<Secretive>(),
                                  {.process_group = group,
                                   .find_unused_parameters = !is_static,
                                   .static_graph = is_static});
      ddp.forward();
      return std::string("accepted");
    });
    for (const std::string& report : reports) {
      EXPECT_NE(report.find("UsageError: DistributedDataParallel cannot find the tensors in the "
                            "output of forward, a "),
                std::string::npos)
          << report;
      EXPECT_NE(report.find(std::string("Hidden, which ") +
                            (is_static ? "static_graph" : "find_unused_parameters") + " needs"),
                std::string::npos)
          << report;
    }
  }
  // Without these options nobody needs to see them.
  const auto reports = run_world(2, [](const Group& group) {
    const auto net = std::make_shared<Secretive>();
    DistributedDataParallel ddp(net, {.process_group = group});
    for (int step = 0; step < 2; ++step) {
      net->zero_grad();
      (ddp.forward().value * (group->getRank() + 1)).sum().backward();
    }
    return numbers(net->weight.grad());
  });
  EXPECT_EQ(reports, same(2, "3"));
}

}  // namespace
}  // namespace lockstep
