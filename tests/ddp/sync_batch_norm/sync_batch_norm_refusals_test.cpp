// Checks the refusals of SyncBatchNorm: which sentence appears on which ranks.
#include "ddp/errors.h"
#include "ddp/sync_batch_norm.h"
#include "tests/ddp/forked_world.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>

namespace lockstep {
namespace {

using testing::Group;
using testing::numbers;
using testing::run_world;
using testing::same;

TEST(SyncBatchNormRefusals, OfOneValuePerChannelInTheWholeGroupIsRefusedOnEveryRank) {
  const auto program = [](const Group& group) {
    SyncBatchNorm norm({.num_features = 2, .process_group = group});
    norm->forward(torch::ones({group->getRank() + 1 == group->getSize() ? 1 : 0, 2}));
    return std::string("no error");
  };
  const auto sentence = [](const std::string& ranks, const std::string& last) {
    return "DisagreementError: SyncBatchNorm in training needs more than one value per channel "
           "over all " +
           ranks + " of its group, and only rank " + last + " has one";
  };
  EXPECT_EQ(run_world(1, program), same(1, sentence("1 ranks", "0")));
  EXPECT_EQ(run_world(3, program), same(3, sentence("3 ranks", "2")));
}

TEST(SyncBatchNormRefusals, InTrainingWithoutAGroupIsAnErrorAndNotAWorldOfOne) {
  SyncBatchNorm norm({.num_features = 1});
  try {
    norm->forward(torch::ones({2, 1}));
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_STREQ(error.what(),
                 "SyncBatchNorm: process_group is null; in training expected the group of the "
                 "ranks that train together");
  }
}

TEST(SyncBatchNormRefusals, BackwardThatSomeRankCannotMeetIsRefusedOnEveryRank) {
  const auto reports = run_world(2, [](const Group& group) {
    SyncBatchNorm norm({.num_features = 1, .affine = false, .process_group = group});
    norm->forward(torch::ones({2, 1}).requires_grad_(group->getRank() == 0));
    return std::string("no error");
  });
  EXPECT_EQ(reports, same(2,
                          "DisagreementError: ranks disagree on whether the output of "
                          "SyncBatchNorm requires a gradient, although some rank's input does: "
                          "rank 0 has true; rank 1 has false"));
}

TEST(SyncBatchNormRefusals, SecondDerivativesAreRefused) {
  const auto reports = run_world(1, [](const Group& group) {
    SyncBatchNorm norm({.num_features = 1, .process_group = group});
    const at::Tensor input = torch::tensor({{1.0F}, {2.0F}, {4.0F}}).requires_grad_();
    torch::autograd::grad({norm->forward(input).square().sum()}, {input}, {}, true, true);
    return std::string("no error");
  });
  EXPECT_EQ(reports, same(1,
                          "UsageError: SyncBatchNorm has no second derivative: backward with "
                          "create_graph"));
}

// One difference of rank 1 alone, which no scenario draws, and the sentence of both.
struct Different {
  std::string sentence;
  std::function<void(SyncBatchNormOptions&)> change;
  at::Tensor input = torch::ones({2, 2});
};

TEST(SyncBatchNormRefusals, DisagreementsRaiseOneSentenceOnEveryRank) {
  const std::vector<Different> all{
      {"ranks disagree on momentum of SyncBatchNorm: rank 0 has 0.10000000000000001; rank 1 has "
       "unset",
       [](auto& options) { options.momentum = std::nullopt; }},
      {"ranks disagree on the input dtype of SyncBatchNorm: rank 0 has Float; rank 1 has Half",
       [](auto&) {}, torch::ones({2, 2}, torch::dtype(at::kHalf))},
      {"rank 1 of 2 cannot take part: the input of SyncBatchNorm is on the meta device and has "
       "no values",
       [](auto&) {}, torch::ones({2, 2}, torch::device(at::kMeta))},
      {"rank 1 of 2 cannot take part: the input of SyncBatchNorm is undefined", [](auto&) {},
       at::Tensor()}};
  for (const Different& each : all) {
    const auto reports = run_world(2, [&](const Group& group) {
      const bool differs = group->getRank() == 1;
      SyncBatchNormOptions options{.num_features = 2, .process_group = group};
      if (differs) each.change(options);
      SyncBatchNorm norm(options);
      norm->forward(differs ? each.input : torch::ones({2, 2}));
      return std::string("no error");
    });
    EXPECT_EQ(reports, same(2, "DisagreementError: " + each.sentence));
  }
}

TEST(SyncBatchNormRefusals, ALayerLeftOutOnOneRankIsNoticedAtItsNextForward) {
  const auto reports = run_world(2, [](const Group& group) {
    SyncBatchNorm first({.num_features = 1, .process_group = group});
    SyncBatchNorm second({.num_features = 1, .process_group = group});
    (group->getRank() == 0 ? first : second)->forward(torch::ones({2, 1}));
    first->forward(torch::ones({2, 1}));
    return std::string("no error");
  });
  EXPECT_EQ(reports, same(2,
                          "DisagreementError: ranks disagree on the number of earlier forwards "
                          "in training of SyncBatchNorm: rank 0 has 1; rank 1 has 0"));
}

TEST(SyncBatchNormRefusals, AfterADisagreementCanBeUsedAgain) {
  const auto reports = run_world(2, [](const Group& group) {
    SyncBatchNorm norm({.num_features = 1, .momentum = 1.0, .process_group = group});
    std::string report;
    try {
      norm->forward(torch::ones({2, group->getRank() + 1}));
    } catch (const DisagreementError&) {
      report = "refused, then ";
    }
    norm->forward(torch::full({2, 1}, group->getRank() * 2.0));
    return report + numbers(norm->running_mean);
  });
  EXPECT_EQ(reports, same(2, "refused, then 1"));
}

TEST(SyncBatchNormRefusals, ARankInEvaluationIsTheOthersDeadline) {
  const auto reports = run_world(
      2,
      [](const Group& group) {
        SyncBatchNorm norm(
            {.num_features = 1, .process_group = group, .timeout = std::chrono::milliseconds(300)});
        if (group->getRank() == 1) {
          norm->eval();
          norm->forward(torch::ones({2, 1}));
          // Stays until rank 0 has given up, so that it is no dead peer.
          group->getStore()->wait({"gave up"});
          return std::string("returned");
        }
        try {
          norm->forward(torch::ones({2, 1}));
        } catch (const CommunicationError& error) {
          group->getStore()->set("gave up", "yes");
          return error.operation();
        }
        return std::string("no error");
      },
      std::chrono::seconds(20));
  EXPECT_EQ(reports,
            (std::vector<std::string>{"exchange of SyncBatchNorm in training", "returned"}));
}

TEST(SyncBatchNormRefusals, OfAnInputInEvaluationNeedNoPeer) {
  const auto reports = run_world(1, [](const Group&) {
    SyncBatchNorm norm({.num_features = 2});
    norm->eval();
    norm->forward(torch::ones({2, 5}));
    return std::string("no error");
  });
  EXPECT_EQ(reports, same(1,
                          "UsageError: the input of SyncBatchNorm has shape [2, 5], expected "
                          "[samples, 2, ...]"));
}

TEST(SyncBatchNormRefusals, OptionsOutsideTheirRangeAreRefused) {
  EXPECT_THROW(SyncBatchNorm({.num_features = 0}), UsageError);
  EXPECT_THROW(SyncBatchNorm({.num_features = 1, .eps = -1}), UsageError);
  EXPECT_THROW(SyncBatchNorm({.num_features = 1, .momentum = 1.5}), UsageError);
}

}  // namespace
}  // namespace lockstep
