// How many messages a broadcast of state takes.
#include "ddp/module/buffers.h"
#include "tests/ddp/forked_world.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace lockstep {
namespace {

using testing::Group;
using testing::run_world;
using testing::same;

TEST(InitialState, TravelsInMessagesThatAreFullAtTheirCap) {
  const auto reports = run_world(2, [&](const Group& group) {
    std::string report;
    for (const int cap : {0, 8, 9, 16, 17, 24, 25, 32}) {
      Communicator communicator(group, std::nullopt);
      const std::vector<at::Tensor> tensors(4, torch::zeros({1}, at::kDouble));
      broadcast_from(0, communicator, tensors, "test",
                     {.broadcast_cap_mb = static_cast<double>(cap) / (1 << 20)});
      report += std::to_string(communicator.issued_count()) + " ";
    }
    return report;
  });
  EXPECT_EQ(reports, same(2, "4 4 2 2 2 2 1 1 "));
}

}  // namespace
}  // namespace lockstep
