// The state of a sharded optimizer: saved as the whole one's, and loaded in a world of another
// size.
#include "tests/ddp/forked_world.h"
#include "tests/train/checkpoint/training.h"
#include "tests/train/zero_redundancy/sharded.h"
#include "train/checkpoint.h"
#include "train/zero_redundancy_optimizer.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace lockstep {
namespace {

using testing::factory;
using testing::Group;
using testing::in_groups;
using testing::optimizer_kinds;
using testing::parameters;
using testing::run_world;
using testing::same;
using testing::set_gradients;
using testing::TemporaryFolder;
using testing::text_of;
using testing::trained;

// Saved by rank `to` of a world of three, loaded by worlds of one, two and four.
TEST(ZeroRedundancyState, ContinuesInAWorldOfAnotherSize) {
  for (const std::string& kind : optimizer_kinds()) {
    const TemporaryFolder folder;
    const std::string path = folder / "optimizer.pt";
    std::string before;
    const int to = kind == "adam" ? 0 : 2;
    const auto saving = run_world(3, [&](const Group& group) {
      const auto all = parameters();
      const auto make = factory(kind);
      ZeroRedundancyOptimizer optimizer(group, in_groups(all, make), make);
      for (int step = 0; step < 3; ++step) {
        set_gradients(all, step);
        optimizer.step();
      }
      optimizer.local().param_groups()[0].options().set_lr(0.5);
      optimizer.consolidate_state_dict(to);
      if (group->getRank() == to) torch::save(optimizer.consolidated(), path);
      return text_of(all);
    });
    EXPECT_EQ(saving, same(3, trained(kind, 3))) << kind;
    const auto continued = [&](const std::vector<at::Tensor>& all,
                               const std::function<void()>& step_with) {
      for (int step = 0; step < 3; ++step) set_gradients(all, step);
      for (int step = 3; step < 5; ++step) {
        set_gradients(all, step);
        step_with();
      }
      return text_of(all);
    };
    // The whole optimizer, with the new learning rate from step 3 on.
    const auto expected = run_world(1, [&](const Group&) {
      const auto all = parameters();
      const auto whole = factory(kind)(in_groups(all, factory(kind)));
      for (int step = 0; step < 3; ++step) {
        set_gradients(all, step);
        whole->step();
      }
      whole->param_groups()[0].options().set_lr(0.5);
      return continued(all, [&] { whole->step(); });
    });
    for (const int world : {1, 2, 4}) {
      const auto reports = run_world(world, [&](const Group& group) {
        const auto all = parameters();
        const auto make = factory(kind);
        const auto reference = make(in_groups(all, make));
        for (int step = 0; step < 3; ++step) {
          set_gradients(all, step);
          reference->step();  // brings the parameters to where they were saved
        }
        ZeroRedundancyOptimizer optimizer(group, in_groups(all, make), make);
        auto whole = optimizer.whole();
        torch::load(*whole, path);
        optimizer.load_state_dict(std::move(whole));
        return continued(all, [&] { optimizer.step(); });
      });
      EXPECT_EQ(reports, same(world, expected[0])) << kind << " in a world of " << world;
    }
  }
}

TEST(ZeroRedundancyState, IsPartOfACheckpoint) {
  const TemporaryFolder folder;
  const std::string path = folder / "checkpoint.pt";
  const auto reports = run_world(2, [&](const Group& group) {
    // After a step, a checkpoint's state or none, and another step.
    const auto trained_with = [&](const std::string& how) {
      const auto all = parameters();
      ZeroRedundancyOptimizer first(group, all, factory("adam"));
      set_gradients(all, 0);
      first.step();
      if (how == "save") {
        first.consolidate_state_dict();
        const bool is_first = group->getRank() == 0;
        save_checkpoint(path, group,
                        {.optimizer = is_first ? &first.consolidated() : &first.local()});
      }
      ZeroRedundancyOptimizer second(group, all, factory("adam"));
      if (how == "load") {
        auto whole = second.whole();
        load_checkpoint(path, group, {.optimizer = &*whole});
        second.load_state_dict(std::move(whole));
      }
      set_gradients(all, 1);
      how == "save" ? first.step() : second.step();
      return text_of(all);
    };
    const std::string expected = trained_with("save");
    return std::string(trained_with("load") == expected ? "equal" : "differs") +
           (trained_with("nothing") == expected ? ", equal without" : ", differs without");
  });
  EXPECT_EQ(reports, same(2, "equal, differs without"));
}

}  // namespace
}  // namespace lockstep
