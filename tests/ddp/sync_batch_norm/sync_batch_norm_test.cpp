// SyncBatchNorm in forked worlds: what it accepts, what it refuses, and with whom it speaks.
// The scenario sync_batch_norm.matches_single_process judges its numbers in general.
#include "ddp/sync_batch_norm.h"

#include "ddp/distributed_data_parallel.h"
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

// With the weight W n_r / N for each rank's loss, DDP's averages are the gradients of one process:
// SyncBatchNorm leaves its own weight and bias to DDP, and reduces them not a second time.
TEST(SyncBatchNorm, UnderDdpTrainsAsOneProcess) {
  const auto net_of = [](const Group& group) {
    torch::nn::Sequential net(torch::nn::Linear(2, kChannels));
    if (group) {
      net->push_back(SyncBatchNorm({.num_features = kChannels, .process_group = group}));
    } else {
      net->push_back(torch::nn::BatchNorm1d(kChannels));
    }
    net->push_back(torch::nn::Linear(kChannels, 1));
    net->to(at::kDouble);
    const torch::NoGradGuard no_grad;
    for (auto& each : net->parameters()) each.copy_(batch(0, each.sizes().vec()));
    return net;
  };
  const auto reports = run_world(2, [&](const Group& group) {
    const std::vector<at::Tensor> parts{batch(0, {6, 2}), batch(1, {2, 2})};
    auto net = net_of(group), plain = net_of(nullptr);
    DistributedDataParallel ddp(net, {.process_group = group});
    const at::Tensor own = ddp.forward(parts[static_cast<std::size_t>(group->getRank())]);
    (own.square().sum() * (2.0 / 8)).backward();
    (plain->forward(at::cat(parts)).square().sum() / 8).backward();
    double apart = 0;
    for (std::size_t i = 0; i < net->parameters().size(); ++i)
      apart = std::max(
          apart, largest_difference(net->parameters()[i].grad(), plain->parameters()[i].grad()));
    return apart < 1e-12 ? std::string("equal") : c10::str("apart by ", apart);
  });
  EXPECT_EQ(reports, same(2, "equal"));
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

TEST(SyncBatchNorm, OfOneValuePerChannelOnEachRankIsLegal) {
  const auto reports = run_world(2, [](const Group& group) {
    SyncBatchNorm norm({.num_features = 1, .eps = 0, .momentum = 1.0, .process_group = group});
    const at::Tensor output = norm->forward(torch::full({1, 1}, group->getRank() * 4.0));
    return numbers(output) + " | " + state(norm);
  });
  EXPECT_EQ(reports, (std::vector<std::string>{"-1 | 2 | 8 | 1", "1 | 2 | 8 | 1"}));
}

TEST(SyncBatchNorm, OfABatchThatIsEmptyEverywhereChangesNothing) {
  const auto reports = run_world(2, [](const Group& group) {
    SyncBatchNorm norm({.num_features = 2, .process_group = group});
    const at::Tensor input = torch::empty({0, 2, 5}).requires_grad_();
    const at::Tensor output = norm->forward(input);
    output.sum().backward();
    return c10::str(output.sizes(), " ", input.grad().sizes(), " ") + numbers(norm->weight.grad()) +
           " | " + state(norm);
  });
  EXPECT_EQ(reports, same(2, "[0, 2, 5] [0, 2, 5] 0 0 | 0 0 | 1 1 | 0"));
}

TEST(SyncBatchNorm, OfAnEmptyRankTakesPartInEveryDtype) {
  for (const auto dtype : {at::kHalf, at::kBFloat16, at::kFloat, at::kDouble}) {
    const auto reports = run_world(2, [&](const Group& group) {
      SyncBatchNorm norm({.num_features = 1, .momentum = 1.0, .process_group = group});
      const at::Tensor input =
          group->getRank() == 0 ? torch::zeros({0, 1}) : torch::tensor({{1.0}, {3.0}});
      const at::Tensor leaf = input.to(dtype).requires_grad_();
      const at::Tensor output = norm->forward(leaf);
      output.sum().backward();
      return c10::str(output.scalar_type() == dtype && leaf.grad().scalar_type() == dtype, " ",
                      norm->weight.grad().scalar_type(), " ") +
             state(norm);
    });
    EXPECT_EQ(reports, same(2, "1 Float 2 | 2 | 1"));
  }
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

TEST(SyncBatchNorm, InEvaluationNeedsNoGroupAndIsBatchNorm) {
  for (const bool track : {true, false}) {
    SyncBatchNorm norm({.num_features = kChannels, .track_running_stats = track});
    torch::nn::BatchNorm2d plain(torch::nn::BatchNormOptions(kChannels).track_running_stats(track));
    norm->eval();
    plain->eval();
    const at::Tensor input = batch(0, {2, kChannels, 2, 2}, at::kFloat);
    EXPECT_TRUE(norm->forward(input).equal(plain->forward(input)));
    const at::Tensor narrow = input.to(at::kBFloat16);
    EXPECT_EQ(norm->forward(narrow).scalar_type(), at::kBFloat16);
  }
}

TEST(SyncBatchNorm, InEvaluationOnOneRankCommunicatesNothing) {
  const auto reports = run_world(2, [](const Group& group) {
    SyncBatchNorm norm({.num_features = 1, .process_group = group});
    norm->eval();
    if (group->getRank() == 1) norm->forward(torch::ones({2, 1}));
    norm->train();
    norm->forward(torch::ones({2, 1}));
    return numbers(norm->num_batches_tracked);
  });
  EXPECT_EQ(reports, same(2, "1"));
}

TEST(SyncBatchNorm, WithoutRunningStatisticsTrains) {
  const auto reports = run_world(2, [](const Group& group) {
    SyncBatchNorm norm(
        {.num_features = 1, .eps = 0, .track_running_stats = false, .process_group = group});
    const at::Tensor output = norm->forward(torch::full({1, 1}, group->getRank() * 4.0));
    return numbers(output) + c10::str(" ", norm->buffers().size());
  });
  EXPECT_EQ(reports, (std::vector<std::string>{"-1 0", "1 0"}));
}

TEST(SyncBatchNorm, WithoutMomentumAveragesAllBatchesAlike) {
  const auto reports = run_world(2, [](const Group& group) {
    SyncBatchNorm norm({.num_features = 1, .momentum = std::nullopt, .process_group = group});
    for (const double value : {4.0, 8.0, 0.0}) norm->forward(torch::full({1, 1}, value));
    return numbers(norm->running_mean.round()) + numbers(norm->num_batches_tracked);
  });
  EXPECT_EQ(reports, same(2, "43"));
}

// Only rank 0 has a layer below that learns; rank 1 meets it in backward all the same.
TEST(SyncBatchNorm, BackwardIsMetByARankWhoseInputNeedsNoGradient) {
  const auto reports = run_world(2, [](const Group& group) {
    const int rank = group->getRank();
    SyncBatchNorm norm({.num_features = 1, .eps = 0, .process_group = group});
    const at::Tensor input = torch::full({1, 1}, rank * 4.0).requires_grad_(rank == 0);
    const at::Tensor output = norm->forward(input);
    (output * (rank + 1)).sum().backward();
    return numbers(norm->weight.grad()) + " " + numbers(norm->bias.grad()) +
           (input.grad().defined() ? " " + numbers(input.grad()) : " none");
  });
  // y = -1 and 1 whatever the input is, so its gradient is zero.
  EXPECT_EQ(reports, (std::vector<std::string>{"-1 1 0", "2 2 none"}));
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
