// The program's own collectives: sums that wrap, groups that end, and lines that are printed.
#include "train/collectives.h"

#include "tests/ddp/forked_world.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <filesystem>
#include <iostream>
#include <string>
#include <system_error>

namespace lockstep {
namespace {

using testing::Group;
using testing::numbers;
using testing::run_world;
using testing::same;

// int16 travels as int32, and wraps as int16 does.
TEST(Collectives, WrapSumsOfInt16AsAnAdditionDoes) {
  const auto reports = run_world(2, [](const Group& group) {
    const at::Tensor tensor = at::full({1}, 30'000, at::kShort);
    all_reduce(group, tensor);
    return numbers(tensor);
  });
  EXPECT_EQ(reports, same(2, "-5536"));
}

TEST(Collectives, LetTheirGroupEndWithItsLastPointer) {
  const auto reports = run_world(2, [](const Group& group) {
    std::string report;
    for (const int size : {1, 2}) {
      auto part = new_subgroups(group, size);
      barrier(part);
      const c10::weak_intrusive_ptr<c10d::ProcessGroup> weak(part);
      part.reset();
      report += weak.expired() ? "ended " : "lives ";
    }
    return report;
  });
  EXPECT_EQ(reports, same(2, "ended ended "));
}

int open_sockets() {
  int count = 0;
  for (const auto& each : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;  // the iterator's own descriptor
    count += std::filesystem::read_symlink(each, gone).string().starts_with("socket:");
  }
  return count;
}

TEST(Collectives, CloseTheirConnectionsWithDestroyProcessGroup) {
  const auto reports = run_world(2, [](const Group& group) {
    const int before = open_sockets();
    barrier(group);
    const int connected = open_sockets();
    destroy_process_group(group);
    return (connected > before ? "connected, " : "no connection, ") +
           std::to_string(open_sockets() - before) + " left";
  });
  EXPECT_EQ(reports, same(2, "connected, 0 left"));
}

TEST(Collectives, PrintOneWholeLineOnRankZero) {
  const auto reports = run_world(2, [](const Group& group) {
    std::ostringstream printed;
    auto* const before = std::cout.rdbuf(printed.rdbuf());
    print_rank_0(group, "epoch ", 3, ", loss ", 0.5);
    std::cout.rdbuf(before);
    return printed.str();
  });
  EXPECT_EQ(reports, (std::vector<std::string>{"epoch 3, loss 0.5\n", ""}));
}

}  // namespace
}  // namespace lockstep
