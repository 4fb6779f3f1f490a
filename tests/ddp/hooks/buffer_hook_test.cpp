// Buffer hooks that are refused.
#include "ddp/buffer_hook.h"

#include "ddp/distributed_data_parallel.h"
#include "tests/ddp/forked_world.h"
#include "tests/ddp/modules.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace lockstep {
namespace {

using testing::Counting;
using testing::Group;
using testing::run_world;

// Does nothing.
class Named : public BufferHook {
 public:
  explicit Named(std::string name = "noting") : name_(std::move(name)) {}
  std::string description() const override { return name_; }
  void run(const std::vector<NamedBuffer>&, int, HookCollectives&) override {}

 private:
  const std::string name_;
};

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
        [&] { ddp->register_buffer_hook(std::make_shared<Named>(is_first ? "one" : "other")); });
    report += " | " + thrown([&] {
                ddp->register_buffer_hook(
                    std::make_shared<Named>(),
                    is_first ? BufferHookPlace::before_forward : BufferHookPlace::after_forward);
              });
    report += " | " + thrown([&] { without->register_buffer_hook(std::make_shared<Named>()); });
    ddp->register_buffer_hook(std::make_shared<Named>());
    return report + " | " + thrown([&] { ddp->register_buffer_hook(std::make_shared<Named>()); });
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
