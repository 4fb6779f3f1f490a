// An optimizer that steps in backward does what it does after it.
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

std::shared_ptr<torch::optim::Optimizer> sgd(Terms& net) {
  return std::make_shared<torch::optim::SGD>(net->parameters(),
                                             torch::optim::SGDOptions(1).momentum(0.5));
}

std::string thrown_by(const std::function<void()>& act) {
  try {
    act();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "nothing";
}

TEST(StepInBackward, MovesNothingAfterAPassThatFailed) {
  const auto reports = run_world(2, [](const Group& group) {
    Terms net(2);
    DistributedDataParallel ddp(net, {.process_group = group, .bucket_cap_mb = 0.0});
    ddp->step_in_backward(sgd(net));
    const Loss mine = group->getRank() == 1 ? Loss{{0, 1.0}} : Loss{{0, 1.0}, {1, 1.0}};
    const bool is_reported = thrown_by([&] { ddp.forward(mine).backward(); }) != "nothing";
    return std::string(is_reported ? "reported: " : "not reported: ") + numbers(net->weights[0]);
  });
  EXPECT_EQ(reports, same(2, "reported: 0 0"));
}

TEST(StepInBackward, IsComparedAndSaidOnce) {
  const auto reports = run_world(2, [](const Group& group) {
    Terms net(1);
    DistributedDataParallel ddp(net, {.process_group = group});
    std::string report = thrown_by([&] { ddp->step_in_backward(nullptr); }) + " | ";
    const auto adam = std::make_shared<torch::optim::Adam>(net->parameters());
    report += thrown_by([&] {
      ddp->step_in_backward(group->getRank() == 0 ? sgd(net)
                                                  : std::shared_ptr<torch::optim::Optimizer>(adam));
    });
    ddp->step_in_backward(sgd(net));
    return report + " | " + thrown_by([&] { ddp->step_in_backward(sgd(net)); });
  });
  EXPECT_EQ(reports[0], reports[1]);
  for (const char* part :
       {"the optimizer is null", "torch::optim::SGD", "torch::optim::Adam",
        "an optimizer, a torch::optim::SGD, steps in backward already; it can be called once"})
    EXPECT_NE(reports[0].find(part), std::string::npos) << part << " in " << reports[0];
}

}  // namespace
}  // namespace lockstep
