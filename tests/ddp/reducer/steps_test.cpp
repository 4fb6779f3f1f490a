// Ranks that are in different steps.
#include "ddp/communication_hooks.h"
#include "ddp/distributed_data_parallel.h"
#include "ddp/errors.h"
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
using testing::validation_errors_in;
using Loss = testing::TermsImpl::Loss;

std::string reported(int forwards_of_rank_0) {
  const auto after = [](int forwards) {
    return "its pass comes after " + std::to_string(forwards) + " synchronised forwards";
  };
  return "rank 0: " + after(forwards_of_rank_0) + "; rank 1: " + after(forwards_of_rank_0 + 1) +
         ". Ranks make the same synchronised forwards and backward passes, in one order: one of "
         "them left out a backward pass, or made a forward more";
}

TEST(Steps, AreComparedInHalfPrecisionAndWhereAHookSendsTheBuckets) {
  for (const auto dtype : {at::kHalf, at::kBFloat16, at::kFloat}) {
    for (const bool has_hook : {false, true}) {
      const auto reports = run_world(3, [&](const Group& group) {
        Terms net(2, 1, 0.0, dtype);
        DistributedDataParallel ddp(net, {.process_group = group});
        if (has_hook) ddp->register_comm_hook(all_reduce_hook());
        std::string report;
        for (int step = 0; step < 3; ++step) {
          net->zero_grad();
          const at::Tensor loss = ddp(Loss{{0, 3.0}, {1, 3.0}});
          if (step == 1 && group->getRank() == 2) continue;
          try {
            loss.backward();
            report += numbers(net->weights[0].grad().to(at::kDouble)) + "; ";
          } catch (const UnfinishedReductionError& error) {
            return report + validation_errors_in(error);
          }
        }
        return report;
      });
      for (const std::string& report : reports)
        EXPECT_TRUE(
            report.find("; rank 0: its pass comes after 2 synchronised forwards; rank 1: its "
                        "pass comes after 2 synchronised forwards; rank 2: its pass comes "
                        "after 3 synchronised forwards.") != std::string::npos)
            << dtype << " " << report;
    }
  }
}

// The last bucket is then a sparse gradient.
TEST(Steps, AreComparedWhereTheLastBucketIsSparse) {
  struct Words : torch::nn::Module {
    torch::nn::Embedding words = register_module(
        "words", torch::nn::Embedding(torch::nn::EmbeddingOptions(3, 1).sparse(true)));
    at::Tensor forward() { return words(torch::tensor({0, 1})).sum(); }
  };
  const auto reports = run_world(2, [](const Group& group) {
    DistributedDataParallel ddp(std::make_shared<Words>(), {.process_group = group});
    for (int step = 0; step < 3; ++step) {
      const at::Tensor loss = ddp();
      if (step == 1 && group->getRank() == 1) continue;
      try {
        loss.backward();
      } catch (const UnfinishedReductionError& error) {
        return validation_errors_in(error);
      }
    }
    return std::string("never reported");
  });
  EXPECT_EQ(reports, same(2, reported(2)));
}

}  // namespace
}  // namespace lockstep
