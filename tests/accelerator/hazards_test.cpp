// Programs with streams that forget something, and the same ones right.

#include "tests/accelerator/devices.h"

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <optional>
#include <string>
#include <vector>

namespace lockstep {
namespace {

using testing::kNoHazards;

class Hazards : public ::testing::Test {
 protected:
  void SetUp() override {
    use_simulated_accelerator(2);
    clear_hazards();
    devices.emplace(c10::DeviceType::PrivateUse1);
    here.emplace(devices->getStream(accelerator_device(0)));
    side.emplace(devices->getStreamFromGlobalPool(accelerator_device(0)));
  }

  static at::Tensor ones(std::int64_t size = 8) { return at::ones({size}, accelerator_device(0)); }

  // Makes a stream wait for all that was submitted to another.
  static void let_wait(const c10::Stream& stream, const c10::Stream& other) {
    c10::Event event(c10::DeviceType::PrivateUse1);
    event.record(other);
    event.block(stream);
  }

  static std::string name_of(const c10::Stream& stream) {
    return "stream " + std::to_string(stream.id()) + " of device 0";
  }

  std::optional<c10::impl::VirtualGuardImpl> devices;
  std::optional<c10::Stream> here, side;
};

TEST_F(Hazards, ASideStreamThatDoesNotWaitForTheGradientIsFound) {
  const at::Tensor gradient = ones(), bucket = ones();
  let_wait(*side, *here);
  gradient.fill_(2);
  {
    const c10::StreamGuard guard(*side);
    bucket.copy_(gradient);
  }
  EXPECT_EQ(hazard_sentences(),
            std::vector<std::string>{
                "copy_ on " + name_of(*side) + " reads 32 bytes that fill_ on " + name_of(*here) +
                " wrote, and nothing makes " + name_of(*side) + " wait for it"});
}

TEST_F(Hazards, ASideStreamThatWaitsIsRight) {
  const at::Tensor gradient = ones(), bucket = ones();
  gradient.fill_(2);
  let_wait(*side, *here);
  {
    const c10::StreamGuard guard(*side);
    bucket.copy_(gradient);
  }
  let_wait(*here, *side);
  EXPECT_EQ(bucket.sum().item<float>(), 16);
  EXPECT_EQ(hazard_sentences(), kNoHazards);
}

TEST_F(Hazards, AResultThatNobodyWaitsForIsFound) {
  const at::Tensor bucket = ones();
  let_wait(*side, *here);
  {
    const c10::StreamGuard guard(*side);
    bucket.mul_(2);
  }
  bucket.add(1);
  ASSERT_EQ(hazards().size(), 1U);
  EXPECT_EQ(hazards()[0].kind, accelerator::Hazard::Kind::kReadOfWrite);
  EXPECT_EQ(hazards()[0].later, "add");
}

TEST_F(Hazards, ANewTensorOfAnotherStreamIsWaitedFor) {
  const at::Tensor gradient = ones();
  let_wait(*side, *here);
  at::Tensor scaled;
  {
    const c10::StreamGuard guard(*side);
    scaled = gradient.mul(gradient);
  }
  scaled.sum();
  ASSERT_EQ(hazards().size(), 1U);
  EXPECT_EQ(hazards()[0].kind, accelerator::Hazard::Kind::kReadOfWrite);
  EXPECT_EQ(hazards()[0].earlier, "mul");
  let_wait(*here, *side);
  scaled.sum();
  EXPECT_EQ(hazards().size(), 1U);
}

TEST_F(Hazards, AResultThatGrewIsWaitedFor) {
  const at::Tensor one = at::eye(2, ones().options());
  at::Tensor out = at::empty({0}, one.options());
  let_wait(*side, *here);
  {
    const c10::StreamGuard guard(*side);
    at::mm_out(out, one, one);
  }
  out.sum();
  ASSERT_EQ(hazards().size(), 1U);
  EXPECT_EQ(hazards()[0].earlier, "mm");
  EXPECT_EQ(hazards()[0].kind, accelerator::Hazard::Kind::kReadOfWrite);
}

TEST_F(Hazards, AWriteOverWhatAnotherStreamStillReadsIsFound) {
  const at::Tensor gradient = ones();
  let_wait(*side, *here);
  {
    const c10::StreamGuard guard(*side);
    gradient.add(1);
  }
  gradient.zero_();
  ASSERT_EQ(hazards().size(), 1U);
  EXPECT_EQ(hazards()[0].kind, accelerator::Hazard::Kind::kWriteOfRead);
}

TEST_F(Hazards, ViewsOfOneBucketDoNotMeetEachOther) {
  const at::Tensor bucket = ones(8);
  let_wait(*side, *here);
  bucket.narrow(0, 0, 4).fill_(2);
  {
    const c10::StreamGuard guard(*side);
    bucket.narrow(0, 4, 4).fill_(3);
  }
  EXPECT_EQ(hazard_sentences(), kNoHazards);
  bucket.narrow(0, 3, 2).fill_(4);
  ASSERT_EQ(hazards().size(), 1U);
  EXPECT_EQ(hazards()[0].bytes, 4U);
}

TEST_F(Hazards, AViewTouchesNothing) {
  const at::Tensor bucket = ones(8);
  const at::Tensor sparse = at::eye(2, bucket.options()).to_sparse();
  let_wait(*side, *here);
  bucket.fill_(2);
  sparse.mul_(2);
  const c10::StreamGuard guard(*side);
  EXPECT_EQ(sparse._values().numel(), 2);
  const at::Tensor view = bucket.view({2, 4}).t().narrow(1, 0, 1).as_strided({2}, {1});
  EXPECT_EQ(view.numel(), 2);
  EXPECT_EQ(hazard_sentences(), kNoHazards);
}

TEST_F(Hazards, MemoryFreedWhileASideStreamUsesItIsFound) {
  at::Tensor gradient = ones();
  let_wait(*side, *here);
  {
    const c10::StreamGuard guard(*side);
    gradient.add(1);
  }
  gradient.reset();
  EXPECT_EQ(hazard_sentences(),
            std::vector<std::string>{"32 bytes allocated on " + name_of(*here) +
                                     " were freed while add on " + name_of(*side) +
                                     " may still use them, and nothing makes " + name_of(*here) +
                                     " wait for it; record_stream would"});
}

TEST_F(Hazards, MemoryThatIsRecordedOrWaitedForIsFreedInOrder) {
  at::Tensor one = ones(), other = ones(), third = ones();
  let_wait(*side, *here);
  {
    const c10::StreamGuard guard(*side);
    at::stack({one, other, third});
  }
  one.record_stream(*side);
  devices->recordDataPtrOnStream(other.storage().data_ptr(), *side);
  one.reset();
  other.reset();
  let_wait(*here, *side);
  third.reset();
  EXPECT_EQ(hazard_sentences(), kNoHazards);
}

TEST_F(Hazards, AHostThatSynchronisesOrders) {
  const at::Tensor bucket = ones();
  c10::Event event(c10::DeviceType::PrivateUse1);
  event.record(*here);
  event.synchronize();
  {
    const c10::StreamGuard guard(*side);
    bucket.add_(1);
  }
  devices->synchronizeStream(*side);
  bucket.add_(1);
  {
    const c10::StreamGuard guard(*side);
    devices->synchronizeDevice(0);
    bucket.add_(1);
    bucket.sum().item();
  }
  bucket.add_(1);
  EXPECT_TRUE(event.query());
  EXPECT_EQ(hazard_sentences(), kNoHazards);
}

TEST_F(Hazards, ACopyBetweenDevicesIsInOrderOnBoth) {
  const at::Tensor one = ones();
  const at::Tensor other = one.mul(2).to(accelerator_device(1)).mul(2);
  one.copy_(other);
  other.zero_();
  EXPECT_EQ(one.sum().item<float>(), 32);
  EXPECT_EQ(hazard_sentences(), kNoHazards);
}

TEST_F(Hazards, TheEngineOrdersABackwardOfASideStream) {
  const at::Tensor weight = ones().requires_grad_();
  at::Tensor loss;
  let_wait(*side, *here);
  {
    const c10::StreamGuard guard(*side);
    loss = weight.mul(2).sum();
  }
  let_wait(*here, *side);
  loss.backward();
  EXPECT_EQ(weight.grad().sum().item<float>(), 16);
  loss.reset();
  EXPECT_EQ(hazard_sentences(), kNoHazards);
}

TEST_F(Hazards, StreamsOfThePoolComeAround) {
  const c10::Stream first = devices->getStreamFromGlobalPool(accelerator_device(1));
  for (int i = 0; i < 31; ++i) EXPECT_NE(devices->getNewStream(accelerator_device(1)), first);
  EXPECT_EQ(devices->getStreamFromGlobalPool(accelerator_device(1)), first);
  EXPECT_NE(devices->getDefaultStream(accelerator_device(1)), first);
}

TEST_F(Hazards, EachThreadHasItsOwnCurrentStream) {
  const c10::StreamGuard guard(*side);
  std::optional<c10::Stream> other;
  std::thread([&] { other = devices->getStream(accelerator_device(0)); }).join();
  EXPECT_EQ(devices->getStream(accelerator_device(0)), *side);
  EXPECT_EQ(*other, devices->getDefaultStream(accelerator_device(0)));
}

}  // namespace
}  // namespace lockstep
