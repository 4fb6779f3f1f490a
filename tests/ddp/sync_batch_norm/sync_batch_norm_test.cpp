// SyncBatchNorm in forked worlds: many channels, sums of half values, and what it prints.
// The scenario sync_batch_norm.matches_single_process judges its numbers in general.
#include "ddp/sync_batch_norm.h"

#include "tests/ddp/forked_world.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <sstream>

namespace lockstep {
namespace {

using testing::Group;
using testing::numbers;
using testing::run_world;
using testing::same;

// Rank r's samples of a batch that depends on nothing but the shape; ranks differ in their average.
at::Tensor batch(int rank, std::vector<std::int64_t> shape, at::ScalarType dtype = at::kDouble) {
  auto generator = at::detail::createCPUGenerator(static_cast<std::uint64_t>(10 + rank));
  return (torch::randn(shape, generator, torch::kDouble) * 2 + 3 * rank).to(dtype);
}

double largest_difference(const at::Tensor& a, const at::Tensor& b) {
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
}

std::string state(SyncBatchNorm& norm) {
  return numbers(norm->running_mean) + " | " + numbers(norm->running_var) + " | " +
         numbers(norm->num_batches_tracked);
}

// Statistics of so many channels do not fit into the first exchange.
TEST(SyncBatchNorm, OfManyChannelsIsBatchNorm) {
  static constexpr std::int64_t kMany = 700;
  const auto reports = run_world(2, [](const Group& group) {
    SyncBatchNorm norm({.num_features = kMany, .process_group = group});
    torch::nn::BatchNorm1d plain(kMany);
    norm->to(at::kDouble);
    plain->to(at::kDouble);
    const at::Tensor whole = at::cat({batch(0, {4, kMany}), batch(1, {4, kMany})});
    const at::Tensor right = plain->forward(whole).narrow(0, 4 * group->getRank(), 4);
    const double apart =
        std::max(largest_difference(norm->forward(batch(group->getRank(), {4, kMany})), right),
                 largest_difference(norm->running_var, plain->running_var));
    return apart < 1e-12 ? std::string("equal") : c10::str("apart by ", apart);
  });
  EXPECT_EQ(reports, same(2, "equal"));
}

// A thousand values of 100 sum to more than Half holds.
TEST(SyncBatchNorm, SumsOfHalfValuesDoNotOverflow) {
  const auto reports = run_world(1, [](const Group& group) {
    SyncBatchNorm norm({.num_features = 1, .momentum = 1.0, .process_group = group});
    norm->forward(torch::full({1000, 1}, 100.0, torch::dtype(at::kHalf)));
    return state(norm);
  });
  EXPECT_EQ(reports, same(1, "100 | 0 | 1"));
}

TEST(SyncBatchNorm, PrintsItsOptionsAndClones) {
  SyncBatchNorm norm({.num_features = 2, .momentum = std::nullopt});
  std::ostringstream text;
  text << *norm;
  EXPECT_EQ(text.str(),
            "lockstep::SyncBatchNorm(2, eps=1e-05, momentum=none, affine=true, "
            "track_running_stats=true)");
  norm->running_mean.fill_(5);
  const auto copy = std::dynamic_pointer_cast<SyncBatchNormImpl>(norm->clone());
  EXPECT_EQ(numbers(copy->running_mean), "5 5");
  EXPECT_FALSE(copy->running_mean.is_same(norm->running_mean));
}

}  // namespace
}  // namespace lockstep
