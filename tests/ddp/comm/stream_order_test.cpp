// The one stream rule alone, on the simulated device, which tells what was left unordered.
#include "ddp/comm/streams.h"
#include "harness/accelerator/accelerator.h"
#include "tests/ddp/devices.h"
#include "tests/ddp/forked_world.h"

#include <c10/core/StreamGuard.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>

namespace lockstep {
namespace {

using testing::forgotten;
using testing::Group;
using testing::run_on_devices;
using testing::same;
using testing::side_stream;

// Returns what was forgotten while `act` worked on memory of the device.
std::string forgotten_in(const std::function<void(StreamOrder&, at::Tensor&)>& act) {
  return run_on_devices(1,
                        [&](const Group&) {
                          at::Tensor memory = at::zeros({2}, accelerator_device());
                          StreamOrder order(accelerator_device());
                          order.enter(memory);
                          order.settle();
                          act(order, memory);
                          return forgotten();
                        })
      .front();
}

// As a hook that packs on a stream of its own.
void pack_on(const c10::Stream& stream, StreamOrder& order, at::Tensor& memory) {
  const c10::StreamGuard guard(stream);
  order.enter(memory);
  memory.add_(1);
}

TEST(StreamOrders, WhatSeveralStreamsHavePackedIsWaitedForWhereItIsHandedOn) {
  EXPECT_EQ(forgotten_in([](StreamOrder& order, at::Tensor& memory) {
              at::Tensor first = memory.slice(0, 0, 1), second = memory.slice(0, 1, 2);
              pack_on(side_stream(), order, first);
              pack_on(side_stream(), order, second);
              order.settle();
              memory.mul_(2);
            }),
            "");
}

TEST(StreamOrders, WhatIsPackedNextWaitsForWhatWasHandedOn) {
  EXPECT_EQ(forgotten_in([](StreamOrder& order, at::Tensor& memory) {
              memory.mul_(2);
              pack_on(side_stream(), order, memory);
              order.settle();
              memory.mul_(2);
              pack_on(side_stream(), order, memory);
              order.settle();
              memory.mul_(2);
            }),
            "");
}

// Nobody has entered since, and it is handed on to another stream.
TEST(StreamOrders, AStreamThatHandsOnWaitsForTheOneThatDidSoBefore) {
  EXPECT_EQ(forgotten_in([](StreamOrder& order, at::Tensor& memory) {
              memory.mul_(2);
              const c10::StreamGuard guard(side_stream());
              order.settle();
              memory.mul_(2);
            }),
            "");
}

// The judge does see what these are about.
TEST(StreamOrders, AreWhatKeepsThemInOrder) {
  EXPECT_NE(forgotten_in([](StreamOrder&, at::Tensor& memory) {
              const c10::StreamGuard guard(side_stream());
              memory.mul_(2);
            }),
            "");
}

}  // namespace
}  // namespace lockstep
