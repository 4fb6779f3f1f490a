// Parameters that some ranks freeze, or all of them, after they were wrapped.
#include "ddp/distributed_data_parallel.h"
#include "ddp/errors.h"
#include "tests/ddp/forked_world.h"
#include "tests/ddp/modules.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace lockstep {
namespace {

using testing::Group;
using testing::run_world;
using testing::same;
using testing::Terms;
using Loss = testing::TermsImpl::Loss;

// 0, 3, 6, ...: its average is exact in worlds of 2 and 3.
double rank_times_three(const Group& group) {
  return 3.0 * group->getRank();
}

TEST(TrainableParameters, ThatOneRankAloneFreezesAreOneSentenceOnEveryRankAndTrainingContinues) {
  for (const int world : {2, 3}) {
    for (int odd = 0; odd < world; ++odd) {
      const auto reports = run_world(world, [&](const Group& group) {
        Terms net(2);
        DistributedDataParallel ddp(net, {.process_group = group});
        if (group->getRank() == odd) net->weights[1].set_requires_grad(false);
        std::string report;
        try {
          ddp->update_trainable_parameters();
        } catch (const DisagreementError& error) {
          report = error.what();
        }
        net->weights[1].set_requires_grad(true);
        ddp.forward(Loss{{0, rank_times_three(group)}, {1, 1.0}}).backward();
        return report + "; " + net->gradients();
      });
      for (const std::string& report : reports) {
        EXPECT_EQ(report, reports.front());
        EXPECT_TRUE(report.starts_with("ranks disagree on requires_grad of parameter 'w1': "));
        EXPECT_TRUE(report.ends_with(world == 2 ? "; 1.5 1.5 | 1 1" : "; 3 3 | 1 1")) << report;
      }
    }
  }
}

TEST(TrainableParameters, CannotAllBeFrozenNorBeUpdatedInAJoin) {
  const auto reports = run_world(2, [](const Group& group) {
    Terms net(1);
    DistributedDataParallel ddp(net, {.process_group = group});
    const auto sentence = [&] {
      try {
        ddp->update_trainable_parameters();
        return std::string("accepted");
      } catch (const DisagreementError& error) {
        return std::string(error.what());
      }
    };
    net->weights[0].set_requires_grad(false);
    std::string report = sentence() + " / ";
    net->weights[0].set_requires_grad(true);
    auto join = ddp.join();
    if (group->getRank() == 1) {
      report += sentence();
    } else {
      try {
        join.finish();
      } catch (const DisagreementError& error) {
        report += error.what();
      }
    }
    return report;
  });
  EXPECT_EQ(reports,
            same(2,
                 "ranks 0 and 1 of 2 cannot take part: the module has no parameter that requires a "
                 "gradient and is not ignored / rank 1 of 2 cannot take part: "
                 "update_trainable_parameters() was called while a join of this instance is under "
                 "way; finish() that one first"));
}

}  // namespace
}  // namespace lockstep
