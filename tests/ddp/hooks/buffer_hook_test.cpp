// Buffer hooks: what they receive, when, and that they replace the broadcast.
#include "ddp/buffer_hook.h"

#include "ddp/distributed_data_parallel.h"
#include "tests/ddp/forked_world.h"
#include "tests/ddp/module/joins.h"
#include "tests/ddp/modules.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace lockstep {
namespace {

using testing::count_of;
using testing::Counting;
using testing::Group;
using testing::run_world;
using testing::same;

// Notes what it is called with.
class Noting : public BufferHook {
 public:
  explicit Noting(std::string name = "noting") : name_(std::move(name)) {}
  std::string description() const override { return name_; }
  void run(const std::vector<NamedBuffer>& buffers, int source, HookCollectives&) override {
    told += "source " + std::to_string(source) + ":";
    for (const auto& [name, tensor] : buffers) told += " " + name;
    told += "; ";
  }
  std::string told;

 private:
  const std::string name_;
};

at::Tensor input() {
  return torch::ones({1}, at::kDouble);
}

// Rank r's buffers start at 0 (they are broadcast) and count by r + 1.
TEST(BufferHook, AveragesBeforeOrAfterForward) {
  struct Expected {
    BufferHookPlace place;
    std::vector<std::string> found, left;
  };
  // Rank 0 and 1 count by 1 and 2. Before: the second forward finds 1.5. After: each ends with it.
  const std::vector<Expected> cases = {{BufferHookPlace::before_forward,
                                        {"1.5 1.5 | 1 | 0", "1.5 1.5 | 2 | 0"},
                                        {"2.5 2.5 | 2 | 0", "3.5 3.5 | 4 | 0"}},
                                       {BufferHookPlace::after_forward,
                                        {"1.5 1.5 | 1 | 0", "1.5 1.5 | 2 | 0"},
                                        {"3 3 | 2 | 0", "3 3 | 4 | 0"}}};
  for (const auto& [place, found, left] : cases) {
    const auto reports = run_world(2, [place = place](const Group& group) {
      Counting net(0);
      DistributedDataParallel ddp(net, {.process_group = group});
      ddp->register_buffer_hook(average_buffers_hook(), place);
      for (int i = 0; i < 2; ++i) ddp.forward(input(), group->getRank() + 1.0).backward();
      return net->found + " then " + net->state();
    });
    for (std::size_t rank = 0; rank < 2; ++rank)
      EXPECT_EQ(reports[rank], found[rank] + " then " + left[rank]);
  }
}

TEST(BufferHook, IsCalledWhereBuffersAreDueAndNowhereElse) {
  const auto reports = run_world(2, [](const Group& group) {
    Counting net(0);
    DistributedDataParallel ddp(
        net, {.process_group = group, .parameters_and_buffers_to_ignore = {"positive"}});
    const auto hook = std::make_shared<Noting>();
    ddp->register_buffer_hook(hook);
    ddp.forward(input(), 1).backward();
    {
      const auto guard = ddp.no_sync();
      ddp.forward(input(), 1).backward();  // due: the forward before it was synchronised
      hook->told += "| ";
      ddp.forward(input(), 1).backward();  // not due
    }
    return hook->told;
  });
  EXPECT_EQ(reports, same(2, "source 0: average count; source 0: average count; | "));
}

TEST(BufferHook, IsCalledOnRanksWithoutInputs) {
  for (const auto place : {BufferHookPlace::before_forward, BufferHookPlace::after_forward}) {
    const auto reports = run_world(2, [&](const Group& group) {
      Counting net(0);
      DistributedDataParallel ddp(net, {.process_group = group});
      ddp->register_buffer_hook(average_buffers_hook(), place);
      auto join = ddp.join();
      for (int i = 0; i < count_of({1, 3}, group); ++i) ddp.forward(input(), 1).backward();
      join.finish();
      return net->state();
    });
    EXPECT_EQ(reports[0], reports[1]);
  }
}

TEST(BufferHook, IsComparedAndRegisteredOnce) {
  const auto thrown = [](const auto& act) -> std::string {
    try {
      act();
    } catch (const std::exception& error) {
      return error.what();
    }
    return "nothing";
  };
  const auto reports = run_world(2, [&](const Group& group) {
    Counting net(0);
    DistributedDataParallel ddp(net, {.process_group = group});
    DistributedDataParallel without(net, {.process_group = group, .forward_sync_buffers = false});
    const bool is_first = group->getRank() == 0;
    std::string report = thrown([&] { ddp->register_buffer_hook(nullptr); }) + " | ";
    report += thrown(
        [&] { ddp->register_buffer_hook(std::make_shared<Noting>(is_first ? "one" : "other")); });
    report += " | " + thrown([&] {
                ddp->register_buffer_hook(
                    std::make_shared<Noting>(),
                    is_first ? BufferHookPlace::before_forward : BufferHookPlace::after_forward);
              });
    report += " | " + thrown([&] { without->register_buffer_hook(std::make_shared<Noting>()); });
    ddp->register_buffer_hook(std::make_shared<Noting>());
    return report + " | " + thrown([&] { ddp->register_buffer_hook(std::make_shared<Noting>()); });
  });
  EXPECT_EQ(reports[0], reports[1]);
  for (const char* part :
       {"the hook is null", "'one' before forward", "'other' before forward",
        "'noting' after forward", "does not synchronise buffers",
        "the buffer hook 'noting' before forward is registered already; it can be called once"})
    EXPECT_NE(reports[0].find(part), std::string::npos) << part << " in " << reports[0];
}

}  // namespace
}  // namespace lockstep
