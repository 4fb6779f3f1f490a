// Checks the warnings of a program that trains past its DistributedDataParallel.
#include "ddp/distributed_data_parallel.h"
#include "tests/ddp/forked_world.h"
#include "tests/ddp/heard_warnings.h"
#include "tests/ddp/modules.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace lockstep {
namespace {

using testing::Group;
using testing::Heard;
using testing::run_world;
using testing::same;
using testing::Terms;
using Loss = testing::TermsImpl::Loss;

TEST(Warnings, OfTheBareModulesPassesComeOnceForEachInstance) {
  const auto reports = run_world(2, [](const Group& group) {
    const Heard warnings;
    for (int instance = 0; instance < 2; ++instance) {
      Terms net(2);
      DistributedDataParallel ddp(net, {.process_group = group});
      ddp.forward(Loss{{0, 1.0}, {1, 1.0}}).backward();
      {
        const auto guard = ddp.no_sync();
        ddp.forward(Loss{{0, 1.0}, {1, 1.0}}).backward();
      }
      if (group->getRank() == 1)
        for (int pass = 0; pass < 2; ++pass) net->forward(Loss{{1, 1.0}}).backward();
    }
    return warnings.all();
  });
  const std::string sentence =
      "DistributedDataParallel on rank 1: a backward pass brought the gradient of 'w1' and went "
      "through no output of ddp.forward, so it was not averaged: what it added to .grad is this "
      "rank's own until the next averaged pass. Call ddp.forward, not the module's own forward, "
      "where gradients are to be averaged. This is said once.|";
  EXPECT_EQ(reports, (std::vector<std::string>{"", sentence + sentence}));
}

struct Unseen {
  at::Tensor value;
};
struct Concealing : torch::nn::Module {
  at::Tensor weight = register_parameter("weight", torch::ones({1}, at::kDouble));
  Unseen forward(double factor) { return {(weight * factor).sum()}; }
};

TEST(Warnings, DoNotComeWhereOutputsCannotBeSeen) {
  const auto reports = run_world(1, [](const Group& group) {
    const Heard warnings;
    const auto net = std::make_shared<Concealing>();
    DistributedDataParallel ddp(net, {.process_group = group});
    const auto guard = ddp.no_sync();
    ddp.forward(1.0).value.backward();
    net->forward(1.0).value.backward();
    return warnings.all();
  });
  EXPECT_EQ(reports, same(1, ""));
}

struct Detaching : torch::nn::Module {
  at::Tensor weight = register_parameter("weight", torch::ones({1}, at::kDouble));
  at::Tensor forward(double factor) { return (weight * factor).sum().detach(); }
};

TEST(BarePasses, AreLocalBehindAForwardWhoseOutputHasNoGraph) {
  const auto reports = run_world(2, [](const Group& group) {
    const Heard warnings;
    const auto net = std::make_shared<Detaching>();
    DistributedDataParallel ddp(net, {.process_group = group});
    ddp.forward(1.0);
    (net->weight * (1 + group->getRank())).sum().backward();
    return testing::numbers(net->weight.grad());
  });
  EXPECT_EQ(reports, (std::vector<std::string>{"1", "2"}));
}

}  // namespace
}  // namespace lockstep
