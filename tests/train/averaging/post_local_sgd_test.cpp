// Post-local SGD: a pass that fails, an archive without a step, and what is refused.
#include "train/post_local_sgd.h"

#include "ddp/distributed_data_parallel.h"
#include "ddp/errors.h"
#include "tests/ddp/forked_world.h"
#include "tests/ddp/heard_warnings.h"
#include "tests/ddp/modules.h"
#include "train/collectives.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <sstream>

namespace lockstep {
namespace {

using testing::Group;
using testing::Heard;
using testing::run_world;
using testing::same;
using testing::Terms;
using Loss = testing::TermsImpl::Loss;

// The pass that failed counts on every rank, or the ranks would part ways at the next one.
TEST(PostLocalSgdHook, CountsAPassThatFailsOnOneRankOnAllOfThem) {
  for (const double cap : {0.0, 25.0}) {
    const auto reports = run_world(2, [&](const Group& group) {
      const auto hook =
          std::make_shared<PostLocalSgdHook>(PostLocalSgdOptions{.start_local_sgd_iter = 2});
      Terms net(3, 1);
      DistributedDataParallel ddp(net, {.process_group = group, .bucket_cap_mb = cap});
      ddp->register_comm_hook(hook);
      std::string report;
      for (int pass = 0; pass < 3; ++pass) {
        net->zero_grad();
        auto loss = ddp.forward(Loss{{0, 12.0 * group->getRank()}, {1, 4.0}, {2, 4.0}});
        const bool throws = pass == 0 && group->getRank() == 1;
        const auto handle = net->weights[1].register_hook([=](at::Tensor) {
          if (throws) throw std::runtime_error("a mistake of the program's");
        });
        try {
          loss.backward();
          report += net->gradients() + "; ";
        } catch (const std::exception&) {
          report += "thrown; ";
        }
        net->weights[1].remove_hook(handle);
      }
      return report + std::to_string(hook->iter());
    });
    EXPECT_EQ(reports, (std::vector<std::string>{"thrown; 6 | 4 | 4; 0 | 4 | 4; 3",
                                                 "thrown; 6 | 4 | 4; 12 | 4 | 4; 3"}));
  }
}

TEST(PostLocalSgdHook, RefusesOptionsOutOfRangeAndRanksThatDiffer) {
  EXPECT_THROW(PostLocalSgdHook({.start_local_sgd_iter = -1}), UsageError);
  EXPECT_THROW(PostLocalSgdHook({}).set_iter(-1), UsageError);
  const auto reports = run_world(2, [](const Group& group) {
    const auto pairs = new_subgroups(group, 1);
    const auto hook = std::make_shared<PostLocalSgdHook>(
        PostLocalSgdOptions{.subgroup = group->getRank() == 0 ? pairs : nullptr});
    Terms net(1);
    DistributedDataParallel ddp(net, {.process_group = group});
    ddp->register_comm_hook(hook);
    return std::string("registered");
  });
  EXPECT_EQ(reports[0], reports[1]);
  EXPECT_NE(reports[0].find("DisagreementError"), std::string::npos) << reports[0];
  EXPECT_NE(reports[0].find("within subgroups"), std::string::npos) << reports[0];
}

TEST(PostLocalSgdOptimizer, LoadsTheArchiveOfAnOptimizerAndBeginsAtStepZero) {
  const auto reports = run_world(1, [](const Group& group) {
    const at::Tensor weight = at::zeros({1}).set_requires_grad(true);
    const auto sgd = std::make_shared<torch::optim::SGD>(std::vector<at::Tensor>{weight},
                                                         torch::optim::SGDOptions(1.0));
    std::stringstream file;
    torch::save(*sgd, file);
    const auto averager =
        std::make_shared<PeriodicModelAverager>(group, PeriodicAveragingOptions());
    averager->set_step(5);
    PostLocalSgdOptimizer optimizer(sgd, averager);
    torch::serialize::InputArchive loaded;
    loaded.load_from(file);
    const Heard warnings;
    optimizer.load(loaded);
    return std::to_string(averager->step()) + " " + warnings.all();
  });
  EXPECT_EQ(reports, same(1,
                          "0 PostLocalSgdOptimizer: the archive has no step, so the averager "
                          "begins at step 0|"));
}

TEST(PostLocalSgdOptimizer, CallsAClosureOnceBeforeItAveragesAndReturnsItsLoss) {
  const auto reports = run_world(2, [](const Group& group) {
    const at::Tensor weight = at::zeros({1}).set_requires_grad(true);
    PostLocalSgdOptimizer optimizer(
        std::make_shared<torch::optim::SGD>(std::vector<at::Tensor>{weight},
                                            torch::optim::SGDOptions(1.0)),
        std::make_shared<PeriodicModelAverager>(group, PeriodicAveragingOptions{.period = 1}));
    int calls = 0;
    const at::Tensor loss = optimizer.step([&] {
      ++calls;
      weight.mutable_grad() = at::full({1}, group->getRank() == 0 ? 2.0 : 4.0);
      return at::full({1}, 10.0 + group->getRank());
    });
    return std::to_string(calls) + " call, loss " + std::to_string(loss.item<int>()) + ", weight " +
           std::to_string(weight.item<int>());
  });
  EXPECT_EQ(reports,
            (std::vector<std::string>{"1 call, loss 10, weight -3", "1 call, loss 11, weight -3"}));
}

TEST(PostLocalSgdOptimizer, RefusesNullPointers) {
  EXPECT_THROW(PostLocalSgdOptimizer(nullptr, nullptr), UsageError);
}

}  // namespace
}  // namespace lockstep
