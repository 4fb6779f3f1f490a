// Sparse gradients where none is expected, dense ones where one is, and those of a bag of words.
#include "ddp/distributed_data_parallel.h"
#include "ddp/errors.h"
#include "ddp/reducer/sparse_sum.h"
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
using testing::validation_errors_in;
using Loss = testing::TermsImpl::Loss;

TEST(SparseGradients, OfABagOfWordsAreAveraged) {
  struct Bag : torch::nn::Module {
    torch::nn::EmbeddingBag bag = register_module(
        "bag", torch::nn::EmbeddingBag(
                   torch::nn::EmbeddingBagOptions(4, 1).sparse(true).mode(torch::kSum)));
    at::Tensor forward(std::int64_t word) {
      return bag->forward(torch::tensor({word, word}).view({1, 2})).sum();
    }
  };
  const auto reports = run_world(2, [](const Group& group) {
    const auto net = std::make_shared<Bag>();
    DistributedDataParallel ddp(net, {.process_group = group});
    ddp.forward(group->getRank() + 1).backward();
    const at::Tensor gradient = net->bag->weight.grad();
    return numbers(gradient.to_dense()) + (gradient.is_coalesced() ? ", coalesced" : "");
  });
  EXPECT_EQ(reports, same(2, "0 1 1 0, coalesced"));
}

TEST(SparseGradients, ThatNoRankHasTravelAsSizesAlone) {
  const auto reports = run_world(2, [](const Group& group) {
    Communicator communicator(group, std::nullopt);
    SparseSum sum(torch::zeros({3, 2}));
    sum.pack({}, 2);
    sum.start(communicator, 0);
    sum.wait_for_sizes(communicator);
    const auto sizes_alone = communicator.issued_count();
    const at::Tensor average = sum.finish(communicator);
    return (average.defined() ? "defined, " : "undefined, ") +
           std::to_string(communicator.issued_count() - sizes_alone) + " more";
  });
  EXPECT_EQ(reports, same(2, "undefined, 0 more"));
}

TEST(SparseGradients, OfFewerSparseDimensionsOnOneRankAreReportedOnEveryRank) {
  const auto reports = run_world(2, [](const Group& group) {
    Communicator communicator(group, std::nullopt);
    std::string report;
    for (const int narrow : {0, 1}) {
      SparseSum sum(torch::zeros({3, 2}));
      sum.pack(torch::ones({3, 2}).to_sparse(group->getRank() == narrow ? 1 : 2), 2);
      sum.start(communicator, 0);
      sum.wait_for_sizes(communicator);
      try {
        sum.finish(communicator);
      } catch (const DisagreementError& error) {
        report += std::string(error.what()) + "\n";
      }
    }
    return report;
  });
  const auto sentence = [](int rank) {
    return "gradients of one parameter have 1 sparse dimensions on rank " + std::to_string(rank) +
           " and 2 on another\n";
  };
  EXPECT_EQ(reports, same(2, sentence(0) + sentence(1)));
}

// The weights of an embedding that a later layer uses, too, have a dense gradient in the sum.
TEST(SparseGradients, ThatTurnOutDenseAreReportedOnEveryRank) {
  struct Tied : torch::nn::Module {
    torch::nn::Embedding table = register_module(
        "table", torch::nn::Embedding(torch::nn::EmbeddingOptions(3, 2).sparse(true)));
    at::Tensor forward(bool tied) {
      const at::Tensor sum = table->forward(torch::tensor({1})).sum();
      return tied ? sum + table->weight.sum() : sum;
    }
  };
  const auto reports = run_world(2, [](const Group& group) {
    DistributedDataParallel ddp(std::make_shared<Tied>(), {.process_group = group});
    try {
      ddp.forward(group->getRank() == 1).backward();
    } catch (const UnfinishedReductionError& error) {
      return validation_errors_in(error);
    }
    return std::string("accepted");
  });
  EXPECT_EQ(reports, same(2,
                          "rank 0: all is well; rank 1: the gradient of 'table.weight' is dense, "
                          "though its Embedding has sparse=true"));
}

}  // namespace
}  // namespace lockstep
