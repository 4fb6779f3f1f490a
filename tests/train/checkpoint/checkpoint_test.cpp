// Checkpoints of Python's.
#include "train/checkpoint.h"

#include "tests/ddp/forked_world.h"
#include "tests/train/checkpoint/training.h"
#include "train/checkpoint/model_state.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace lockstep {
namespace {

using testing::Group;
using testing::make_net;
using testing::make_optimizer;
using testing::run_world;
using testing::same;
using testing::train;

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

}  // namespace
}  // namespace lockstep
