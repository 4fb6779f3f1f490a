#include "tests/accelerator/devices.h"

#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

namespace lockstep {
namespace {

using testing::kNoHazards;
using Reasons = std::vector<std::string>;

class HostWaits : public ::testing::Test {
 protected:
  void SetUp() override {
    use_simulated_accelerator(2);
    clear_hazards();
  }

  static Reasons reasons_of(const std::function<void()>& act) {
    const std::size_t before = host_wait_count();
    act();
    return host_waits(before);
  }

  static at::Tensor ones() { return at::ones({4}, accelerator_device(0)); }
};

TEST_F(HostWaits, AreNoneInAStepThatReadsNothing) {
  torch::nn::Linear net(3, 2);
  net->to(accelerator_device(0));
  torch::optim::SGD optimizer(net->parameters(), 0.1);
  const at::Tensor input = at::ones({5, 3}, accelerator_device(0));
  EXPECT_EQ(reasons_of([&] {
              net->forward(input).square().mean().backward();
              optimizer.step();
              optimizer.zero_grad();
            }),
            Reasons());
}

TEST_F(HostWaits, AreCountedWithTheirReasons) {
  const c10::impl::VirtualGuardImpl devices(c10::DeviceType::PrivateUse1);
  const at::Tensor numbers = ones();
  EXPECT_EQ(reasons_of([&] { numbers.sum().item(); }), Reasons{"item"});
  EXPECT_EQ(reasons_of([&] { numbers.cpu(); }), Reasons{"blocking copy to the host"});
  EXPECT_EQ(reasons_of([&] { numbers.copy_(at::zeros({4})); }),
            Reasons{"blocking copy from the host"});
  EXPECT_EQ(reasons_of([&] { at::zeros({4}).copy_(numbers, true); }),
            Reasons{"copy to pageable memory of the host"});
  EXPECT_EQ(reasons_of([&] { numbers.nonzero(); }), Reasons{"nonzero"});
  EXPECT_EQ(reasons_of([&] { numbers.masked_select(numbers > 0); }), Reasons{"masked_select"});
  EXPECT_EQ(reasons_of([&] { numbers.index({numbers > 0}); }), Reasons{"index"});
  EXPECT_EQ(reasons_of([&] { numbers.equal(numbers); }), Reasons{"equal"});
  EXPECT_EQ(reasons_of([&] { devices.synchronizeStream(devices.getStream(numbers.device())); }),
            Reasons{"stream synchronize"});
  EXPECT_EQ(reasons_of([&] { devices.synchronizeDevice(0); }), Reasons{"device synchronize"});
  c10::Event event(c10::DeviceType::PrivateUse1);
  event.record(devices.getStream(numbers.device()));
  EXPECT_EQ(reasons_of([&] { event.synchronize(); }), Reasons{"event synchronize"});
}

TEST_F(HostWaits, AreNoneWhereCudaWouldNotWait) {
  const at::Tensor numbers = ones();
  EXPECT_EQ(
      reasons_of([&] {
        numbers.copy_(at::zeros({4}), /*non_blocking=*/true);
        numbers.to(accelerator_device(1));
        numbers.to(at::kHalf).add(1);
        numbers.index({at::tensor({1, 2})});
        c10::Event event(c10::DeviceType::PrivateUse1);
        event.record(c10::impl::VirtualGuardImpl(at::kPrivateUse1).getStream(numbers.device()));
        event.query();
      }),
      Reasons());
}

TEST_F(HostWaits, ThatAreForgottenShowInWhatTheHostReads) {
  const at::Tensor numbers = ones();
  at::Tensor pinned;
  c10::Event event(c10::DeviceType::PrivateUse1);
  EXPECT_EQ(
      reasons_of([&] {
        pinned = numbers.add(1).to(at::kCPU, /*non_blocking=*/true);
        event.record(c10::impl::VirtualGuardImpl(at::kPrivateUse1).getStream(numbers.device()));
      }),
      Reasons());
  EXPECT_TRUE(pinned.is_pinned());
  EXPECT_TRUE(std::isnan(pinned[0].item<float>()));
  event.synchronize();
  EXPECT_TRUE(pinned.equal(at::full({4}, 2.0)));
}

TEST_F(HostWaits, AreNotNeededByWhatIsBehindOnAStream) {
  const at::Tensor numbers = ones();
  at::Tensor pinned = at::empty({4}).pin_memory();
  pinned.copy_(numbers.add(1), /*non_blocking=*/true);
  numbers.copy_(pinned, /*non_blocking=*/true);
  EXPECT_EQ(numbers.sum().item<float>(), 8);
  EXPECT_EQ(hazard_sentences(), kNoHazards);
}

}  // namespace
}  // namespace lockstep
