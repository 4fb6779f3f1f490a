// Parameters that take no part in a loss, where the output does not say so.
#include "ddp/distributed_data_parallel.h"
#include "tests/ddp/forked_world.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace lockstep {
namespace {

using testing::Group;
using testing::numbers;
using testing::run_world;
using testing::same;

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
