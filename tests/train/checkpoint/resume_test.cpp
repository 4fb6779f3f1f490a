// A training that is stopped in the middle of an epoch and resumed by new processes ends with the
// bits of one that was never stopped.
#include "ddp/distributed_data_parallel.h"
#include "ddp/distributed_sampler.h"
#include "tests/ddp/forked_world.h"
#include "tests/train/checkpoint/training.h"
#include "train/checkpoint.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace lockstep {
namespace {

using testing::Group;
using testing::numbers;
using testing::run_world;
using testing::TemporaryFolder;

struct Training {
  std::int64_t stop_after = -1;  // steps; then it saves
  bool resumes = false;
  bool carries_generators = true;
};

// Three epochs of six steps on each of two ranks, with dropout; what it has learnt, and what each
// rank's generator would draw next.
std::string trained(const Group& group, const std::string& path, const Training& run) {
  constexpr std::int64_t kSamples = 23, kEpochs = 3;
  torch::manual_seed(1);
  torch::nn::Sequential net(torch::nn::Linear(4, 8), torch::nn::Dropout(0.5),
                            torch::nn::Linear(8, 1));
  const at::Tensor data = torch::randn({kSamples, 4});
  DistributedDataParallel ddp(net, {.process_group = group});
  torch::optim::Adam optimizer(ddp->parameters(), 0.05);
  DistributedSampler sampler(kSamples, *group, {.seed = 5});
  torch::manual_seed(100 + static_cast<std::uint64_t>(group->getRank()));
  std::int64_t epoch = 0, step = 0;
  Checkpoint checkpoint{.model = &*ddp,
                        .optimizer = &optimizer,
                        .sampler = &sampler,
                        .epoch = &epoch,
                        .step = &step,
                        .generators = {at::globalContext().defaultGenerator(at::kCPU)}};
  if (!run.carries_generators) checkpoint.generators.clear();
  if (run.resumes) load_checkpoint(path, group, checkpoint);
  for (; epoch < kEpochs; ++epoch) {
    sampler.set_epoch(epoch);
    sampler.reset();
    while (const auto batch = sampler.next(2)) {
      const std::vector<std::int64_t> rows(batch->begin(), batch->end());
      optimizer.zero_grad();
      const at::Tensor input = data.index_select(0, at::tensor(rows));
      torch::mse_loss(ddp.forward(input), input.sum(1, /*keepdim=*/true)).backward();
      optimizer.step();
      if (++step == run.stop_after) {
        save_checkpoint(path, group, checkpoint);
        return "stopped in epoch " + std::to_string(epoch);
      }
    }
  }
  std::string report = std::to_string(step) + ": ";
  for (const at::Tensor& each : ddp->parameters()) report += numbers(each) + " | ";
  return report + numbers(torch::rand({2}));
}

TEST(Resume, EqualsNeverHavingStoppedBitForBit) {
  const TemporaryFolder folder;
  const auto run = [&](const Training& how) {
    return run_world(2, [&](const Group& group) { return trained(group, folder / "a.pt", how); });
  };
  const auto expected = run({});
  EXPECT_EQ(run({.stop_after = 9}), testing::same(2, "stopped in epoch 1"));
  EXPECT_EQ(run({.resumes = true}), expected);
  EXPECT_NE(run({.resumes = true, .carries_generators = false}), expected)
      << "dropout does not matter here, so that this test shows nothing";
}

TEST(Resume, IsRefusedInAWorldOfAnotherSize) {
  const TemporaryFolder folder;
  run_world(2,
            [&](const Group& group) { return trained(group, folder / "a.pt", {.stop_after = 9}); });
  const auto reports = run_world(
      3, [&](const Group& group) { return trained(group, folder / "a.pt", {.resumes = true}); });
  EXPECT_EQ(reports,
            testing::same(3,
                          "DisagreementError: ranks 0, 1 and 2 of 3 cannot take part: "
                          "load_checkpoint: " +
                              (folder / "a.pt") +
                              ": DistributedSampler: the archive's num_replicas is 2, expected 3"));
}

}  // namespace
}  // namespace lockstep
