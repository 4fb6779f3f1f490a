// The state of a sharded optimizer is saved and loaded as the whole one's.
#include "tests/ddp/forked_world.h"
#include "tests/train/checkpoint/training.h"
#include "train/checkpoint.h"
#include "train/zero_redundancy_optimizer.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace lockstep {
namespace {

using testing::Group;
using testing::numbers;
using testing::run_world;
using testing::same;
using testing::TemporaryFolder;

std::unique_ptr<torch::optim::Optimizer> adam(
    const std::vector<torch::optim::OptimizerParamGroup>& groups) {
  return std::make_unique<torch::optim::Adam>(groups, torch::optim::AdamOptions(0.01));
}

TEST(ZeroRedundancyState, IsPartOfACheckpoint) {
  const TemporaryFolder folder;
  const std::string path = folder / "checkpoint.pt";
  const auto reports = run_world(2, [&](const Group& group) {
    // After a step, a checkpoint's state or none, and another step.
    const auto trained_with = [&](const std::string& how) {
      const std::vector<at::Tensor> all = {torch::ones({3}).set_requires_grad(true),
                                           torch::ones({4}).set_requires_grad(true)};
      const auto set_gradients = [&](double factor) {
        for (const at::Tensor& each : all)
          each.mutable_grad() = torch::arange(1, each.numel() + 1) * factor;
      };
      ZeroRedundancyOptimizer first(group, all, adam);
      set_gradients(1);
      first.step();
      if (how == "save") {
        first.consolidate_state_dict();
        const bool is_first = group->getRank() == 0;
        save_checkpoint(path, group,
                        {.optimizer = is_first ? &first.consolidated() : &first.local()});
      }
      ZeroRedundancyOptimizer second(group, all, adam);
      if (how == "load") {
        auto whole = second.whole();
        load_checkpoint(path, group, {.optimizer = &*whole});
        second.load_state_dict(std::move(whole));
      }
      set_gradients(0.5);
      how == "save" ? first.step() : second.step();
      return numbers(at::cat(all).detach());
    };
    const std::string expected = trained_with("save");
    return std::string(trained_with("load") == expected ? "equal" : "differs") +
           (trained_with("nothing") == expected ? ", equal without" : ", differs without");
  });
  EXPECT_EQ(reports, same(2, "equal, differs without"));
}

}  // namespace
}  // namespace lockstep
