// Checkpoints: what comes back, from our files and from Python's.
#include "train/checkpoint.h"

#include "ddp/distributed_data_parallel.h"
#include "tests/ddp/forked_world.h"
#include "tests/train/checkpoint/training.h"
#include "train/checkpoint/archive.h"
#include "train/checkpoint/model_state.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace lockstep {
namespace {

using testing::Group;
using testing::make_net;
using testing::make_optimizer;
using testing::numbers;
using testing::run_world;
using testing::same;
using testing::TemporaryFolder;
using testing::text_of;
using testing::train;
using testing::write_file;

TEST(Checkpoint, BringsBackModelAndProgressWithAndWithoutThePrefix) {
  const TemporaryFolder folder;
  const auto reports = run_world(2, [&](const Group& group) {
    const std::string wrapped_path = folder / "wrapped.pt", bare_path = folder / "bare.pt";
    auto net = make_net();
    net->to(at::kDouble);
    DistributedDataParallel ddp(net, {.process_group = group});
    std::int64_t epoch = 3, step = std::int64_t{1} << 40;
    save_checkpoint(wrapped_path, group, {.model = &*ddp, .epoch = &epoch, .step = &step});
    save_checkpoint(bare_path, group, {.model = &*net});
    const std::string expected = text_of(*net);
    std::string wrong;
    for (const auto& path : {wrapped_path, bare_path}) {
      for (torch::nn::Module* into :
           {static_cast<torch::nn::Module*>(&*ddp), static_cast<torch::nn::Module*>(&*net)}) {
        const at::NoGradGuard no_grad;
        for (at::Tensor& each : net->parameters()) each.fill_(-1);
        load_checkpoint(path, group, {.model = into});
        if (text_of(*net) != expected) wrong += path + " ";
      }
    }
    epoch = step = 0;
    load_checkpoint(wrapped_path, group, {.epoch = &epoch, .step = &step});
    return wrong + std::to_string(epoch) + " " + std::to_string(step);
  });
  EXPECT_EQ(reports, same(2, "3 1099511627776"));
}

// Expected numbers are Python's own, two steps after it wrote the file (record.py).
TEST(Checkpoint, ContinuesWhatPythonHasTrained) {
  for (const std::string kind : {"sgd", "plain_sgd", "adam", "adamw"}) {
    const auto reports = run_world(1, [&](const Group& group) {
      auto net = make_net(), later = make_net();
      for (at::Tensor& each : net->parameters()) each.detach().zero_();
      const auto optimizer = make_optimizer(kind, net->parameters());
      std::int64_t epoch = 0;
      const std::string folder = LOCKSTEP_RECORDED "/";
      load_checkpoint(folder + kind + ".pt", group,
                      {.model = &*net, .optimizer = optimizer.get(), .epoch = &epoch});
      train(net, *optimizer, 2);
      load_checkpoint(folder + kind + "_two_steps_later.pt", group, {.model = &*later});
      std::string report = std::to_string(epoch);
      const auto expected = state_of_model(*later);
      for (const auto& each : state_of_model(*net))
        if (!each.value().toTensor().allclose(expected.at(each.key()).toTensor(), 0, 2e-6))
          report += " " + each.key().toStringRef();
      return report;
    });
    EXPECT_EQ(reports, same(1, "7")) << kind;
  }
}

TEST(Checkpoint, ReadsWhatOthersCallModelAndOptimizer) {
  const TemporaryFolder folder;
  const auto reports = run_world(1, [&](const Group& group) {
    auto net = make_net();
    StateDict prefixed = empty_dict(), whole = empty_dict();
    for (const auto& each : state_of_model(*net))
      prefixed.insert("module." + each.key().toStringRef(), each.value());
    whole.insert("model_state_dict", prefixed);
    whole.insert("epoch", at::full({}, 5, at::kLong));
    whole.insert("loss", 0.25);
    write_file(folder / "a.pt", whole);
    const std::string expected = text_of(*net);
    for (at::Tensor& each : net->parameters()) each.detach().zero_();
    std::int64_t epoch = 0;
    load_checkpoint(folder / "a.pt", group, {.model = &*net, .epoch = &epoch});
    return (text_of(*net) == expected ? "the same " : "another ") + std::to_string(epoch);
  });
  EXPECT_EQ(reports, same(1, "the same 5"));
}

}  // namespace
}  // namespace lockstep
