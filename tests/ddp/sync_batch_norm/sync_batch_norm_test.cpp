// SyncBatchNorm in forked worlds: what it accepts, what it refuses, and with whom it speaks.
// The scenario sync_batch_norm.matches_single_process judges its numbers in general.
#include "ddp/sync_batch_norm.h"

#include "ddp/init.h"
#include "tests/ddp/forked_world.h"

#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/torch.h>

#include <sstream>

namespace lockstep {
namespace {

using testing::Group;
using testing::numbers;
using testing::run_world;
using testing::same;

constexpr int kChannels = 3;

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

TEST(SyncBatchNorm, InAWorldOfOneIsBatchNorm) {
  for (const auto& shape :
       std::vector<std::vector<std::int64_t>>{{4, 3}, {2, 3, 5}, {2, 3, 2, 2}}) {
    const auto reports = run_world(1, [&](const Group& group) {
      SyncBatchNorm norm({.num_features = kChannels, .process_group = group});
      torch::nn::BatchNorm1d plain(kChannels);
      norm->to(at::kDouble);
      plain->to(at::kDouble);
      double apart = 0;
      for (int step = 0; step < 3; ++step) {
        const at::Tensor input = batch(step, shape);
        const at::Tensor ours = input.clone().requires_grad_();
        const at::Tensor theirs =
            input.reshape({input.size(0), kChannels, -1}).clone().requires_grad_();
        const at::Tensor output = norm->forward(ours);
        const at::Tensor right =
            input.dim() == 2 ? plain->forward(theirs.squeeze(-1)) : plain->forward(theirs);
        const at::Tensor upstream = batch(step + 20, shape);
        output.backward(upstream);
        right.backward(upstream.reshape(right.sizes()));
        apart = std::max({apart, largest_difference(output, right.reshape(shape)),
                          largest_difference(ours.grad(), theirs.grad().reshape(shape)),
                          largest_difference(norm->weight.grad(), plain->weight.grad()),
                          largest_difference(norm->bias.grad(), plain->bias.grad()),
                          largest_difference(norm->running_mean, plain->running_mean),
                          largest_difference(norm->running_var, plain->running_var)});
      }
      return apart < 1e-12 ? std::string("equal") : c10::str("apart by ", apart);
    });
    EXPECT_EQ(reports, same(1, "equal"));
  }
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

TEST(SyncBatchNorm, StaysInsideAGroupThatDoesNotHoldRankZero) {
  const auto reports = run_world(4, [](const Group& world) {
    const int rank = world->getRank();
    const auto store =
        c10::make_intrusive<c10d::PrefixStore>(rank / 2 ? "high" : "low", world->getStore());
    const Group pair = init_process_group({.store = store, .rank = rank % 2, .world_size = 2});
    SyncBatchNorm norm({.num_features = 1, .momentum = 1.0, .process_group = pair});
    norm->forward(torch::full({2, 1}, rank * rank * 1.0));
    return numbers(norm->running_mean);
  });
  EXPECT_EQ(reports, (std::vector<std::string>{"0.5", "0.5", "6.5", "6.5"}));
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
