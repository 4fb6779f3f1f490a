// Checks the operations of a handle.
#include "ddp/distributed_data_parallel.h"
#include "ddp/module/buffers.h"
#include "tests/ddp/forked_world.h"
#include "tests/ddp/modules.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <sstream>

namespace lockstep {
namespace {

using testing::Group;
using testing::numbers;
using testing::run_world;
using testing::Terms;
using Loss = testing::TermsImpl::Loss;

TEST(Handle, ForwardsWhateverTheModuleTakesAndReturns) {
  struct Odd : torch::nn::Module {
    Odd() { register_parameter("weight", torch::ones({1})); }
    std::unique_ptr<int> forward(std::unique_ptr<int> number, int& counter) {
      ++counter;
      return number;
    }
    void forward(const char*) { ++calls; }
    Odd& forward() { return *this; }
    int calls = 0;
  };
  const auto reports = run_world(1, [](const Group& group) {
    DistributedDataParallel ddp(std::make_shared<Odd>(), {.process_group = group});
    int counter = 0;
    const auto number = ddp.forward(std::make_unique<int>(7), counter);
    ddp.forward("nothing");
    const bool is_itself = &ddp.forward() == ddp->module.get();
    static_assert(std::is_void_v<decltype(ddp.forward("nothing"))>);
    static_assert(std::is_same_v<decltype(ddp.forward()), Odd&>);
    return std::to_string(*number) + std::to_string(counter) + std::to_string(ddp->module->calls) +
           std::to_string(is_itself);
  });
  EXPECT_EQ(reports, (std::vector<std::string>{"7111"}));
}

TEST(Handle, IsAHolderWhoseKeysBeginWithModule) {
  const auto reports = run_world(1, [](const Group& group) {
    Terms net(2, 2, 3.0);
    DistributedDataParallel ddp(net, {.process_group = group});
    DistributedDataParallel<testing::TermsImpl> empty = nullptr;
    const auto copy = ddp;
    static_assert(
        std::is_same_v<decltype(copy), const DistributedDataParallel<testing::TermsImpl>>);
    std::string report = std::to_string(empty.is_empty()) + std::to_string(copy.ptr() == ddp.ptr());
    for (const auto& each : ddp->named_parameters()) report += " " + each.key();
    std::stringstream stream;
    torch::save(ddp, stream);
    net->weights[0].detach().fill_(9.0);
    torch::load(ddp, stream);
    return report + " " + numbers(net->weights[0]);
  });
  EXPECT_EQ(reports, (std::vector<std::string>{"11 module.w0 module.w1 3 3"}));
}

// LibTorch's idiom for members.
TEST(Handle, IsMadeOfWhatRegisterModuleReturns) {
  using Layer = DistributedDataParallel<testing::TermsImpl>;
  struct Net : torch::nn::Module {
    explicit Net(const Group& group)
        : layer(register_module("layer", Layer(Terms(1), {.process_group = group}))) {}
    Layer layer;
  };
  const auto reports = run_world(2, [](const Group& group) {
    Net net(group);
    net.layer(Loss{{0, group->getRank() * 2.0}}).backward();
    return net.named_parameters()[0].key() + " " + net.layer->module->gradients();
  });
  EXPECT_EQ(reports, (std::vector<std::string>(2, "layer.module.w0 1 1")));
}

}  // namespace
}  // namespace lockstep
