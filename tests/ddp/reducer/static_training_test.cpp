// static_graph: passes that break its promise, and gradients that come more than once.
#include "ddp/distributed_data_parallel.h"
#include "ddp/errors.h"
#include "tests/ddp/forked_world.h"
#include "tests/ddp/modules.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace lockstep {
namespace {

using testing::all_ways;
using testing::Group;
using testing::numbers;
using testing::run_world;
using testing::same;
using Loss = testing::TermsImpl::Loss;
using Options = DistributedDataParallelOptions;

// Runs a backward pass of its own, for `weight`, inside the outer one, as checkpointing does.
struct Recomputed : torch::autograd::Function<Recomputed> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input,
                            const at::Tensor* weight) {
    context->saved_data["weight"] = *weight;
    context->save_for_backward({input});
    return input * weight->detach();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const torch::AutoGradMode with_grad(true);
    const at::Tensor input = context->get_saved_variables()[0].detach().set_requires_grad(true);
    (input * context->saved_data["weight"].toTensor()).backward(gradients[0]);
    return {input.grad(), at::Tensor()};
  }
};

// One weight in two checkpointed segments arrives twice in one pass.
TEST(StaticGraphs, MayDeliverAGradientMoreThanOnce) {
  struct Tied : torch::nn::Module {
    at::Tensor weight = register_parameter("weight", torch::full({1}, 3.0, at::kDouble));
    at::Tensor other = register_parameter("other", torch::full({1}, 5.0, at::kDouble));
    at::Tensor forward(double factor) {
      return Recomputed::apply(Recomputed::apply(other * factor, &weight), &weight).sum();
    }
  };
  for (const Options& way : all_ways({.static_graph = true})) {
    const auto reports = run_world(2, [&](const Group& group) {
      Options options = way;
      options.process_group = group;
      const auto net = std::make_shared<Tied>();
      DistributedDataParallel ddp(net, options);
      std::string report;
      for (int step = 0; step < 4; ++step) {
        net->zero_grad();
        ddp.forward(group->getRank() == 0 ? 2.0 : 4.0).backward();
        report += numbers(net->weight.grad()) + " " + numbers(net->other.grad()) + "; ";
      }
      return report;
    });
    // out = 9 * other * factor; by weight: 2 * 3 * 5 * factor.
    EXPECT_EQ(reports, same(2, "90 27; 90 27; 90 27; 90 27; "));
  }
  // Without the promise it is refused, on every rank.
  const auto reports = run_world(2, [&](const Group& group) {
    DistributedDataParallel ddp(std::make_shared<Tied>(), {.process_group = group});
    ddp.forward(1.0).backward();
    return std::string("accepted");
  });
  for (const std::string& report : reports) {
    EXPECT_NE(report.find("rank 1: the gradient of 'weight' came twice in one backward pass"),
              std::string::npos)
        << report;
  }
}

}  // namespace
}  // namespace lockstep
