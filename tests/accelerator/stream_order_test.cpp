// Each kind of hazard in its words. Random programs (stream_order_oracle_test.cpp) show that those
// are found which are there, and no others.
#include "harness/accelerator/stream_order.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lockstep::accelerator {
namespace {

constexpr std::uintptr_t kAt = 1000;  // where the block of these tests lies, of 100 bytes

// Streams "A" (0), "B" (1) and "C" (2), and a block from A's pool.
class Streams : public ::testing::Test {
 protected:
  Streams() {
    for (const char* const name : {"A", "B", "C"}) order.add_stream(name);
    order.allocate(kAt, 100, 0);
  }

  void write(std::size_t stream, const std::string& operation, std::uintptr_t begin = 0,
             std::uintptr_t end = 100) {
    order.submit(stream, operation, {{.begin = kAt + begin, .end = kAt + end, .writes = true}});
  }
  void read(std::size_t stream, const std::string& operation, std::uintptr_t begin = 0,
            std::uintptr_t end = 100) {
    order.submit(stream, operation, {{.begin = kAt + begin, .end = kAt + end, .writes = false}});
  }
  // Makes a stream wait for all that was submitted to another.
  void let_wait(std::size_t stream, std::size_t other) { order.wait(stream, order.record(other)); }

  std::vector<std::string> sentences() const {
    std::vector<std::string> out;
    for (const Hazard& each : order.hazards()) out.push_back(each.sentence());
    return out;
  }

  StreamOrder order;
};

using Sentences = std::vector<std::string>;

TEST_F(Streams, AReadOfAWriteThatNobodyWaitsForIsFound) {
  write(0, "pack");
  read(1, "send", 90, 100);
  EXPECT_EQ(
      sentences(),
      Sentences{"send on B reads 10 bytes that pack on A wrote, and nothing makes B wait for it"});
}

TEST_F(Streams, AWriteOfWhatIsReadIsFound) {
  write(0, "pack");
  let_wait(1, 0);
  read(1, "send");
  write(0, "pack again", 0, 1);
  EXPECT_EQ(sentences(),
            Sentences{"pack again on A writes 1 byte that send on B reads, and nothing "
                      "makes A wait for it"});
}

TEST_F(Streams, TwoWritesAreFound) {
  write(0, "pack");
  write(1, "receive");
  EXPECT_EQ(sentences(),
            Sentences{"receive on B writes 100 bytes that pack on A writes, and nothing "
                      "makes B wait for it"});
}

TEST_F(Streams, WhatOneOperationDoesToItselfIsItsOwnAffair) {
  order.submit(0, "add_",
               {{.begin = kAt, .end = kAt + 10, .writes = false},
                {.begin = kAt, .end = kAt + 10, .writes = true},
                {.begin = kAt + 5, .end = kAt + 10, .writes = false}});
  EXPECT_EQ(sentences(), Sentences());
}

TEST_F(Streams, OneHazardHasAllBytesOfTwoOperations) {
  order.submit(0, "pack",
               {{.begin = kAt, .end = kAt + 10, .writes = true},
                {.begin = kAt + 50, .end = kAt + 60, .writes = true}});
  let_wait(1, 0);
  write(0, "pack", 0, 60);
  read(1, "send");
  ASSERT_EQ(order.hazards().size(), 1U);
  EXPECT_EQ(order.hazards()[0].bytes, 60U);
}

TEST_F(Streams, MemoryOfAnotherStreamsPoolIsUsedAfterThatStream) {
  write(0, "what used it before");
  order.free(kAt);
  order.allocate(kAt, 100, 0);
  write(1, "pack");
  EXPECT_EQ(sentences(),
            Sentences{"pack on B uses 100 bytes that were allocated on A, where what used them "
                      "before may still run, and nothing makes B wait for it"});
  order.clear_hazards();
  order.allocate(kAt, 100, 0);
  let_wait(1, 0);
  write(1, "pack");
  EXPECT_EQ(sentences(), Sentences());
}

TEST_F(Streams, MemoryThatIsFreedWhileUsedIsFound) {
  write(0, "pack");
  let_wait(1, 0);
  read(1, "send");
  order.free(kAt);
  EXPECT_EQ(sentences(),
            Sentences{"100 bytes allocated on A were freed while send on B may still use "
                      "them, and nothing makes A wait for it; record_stream would"});
}

TEST_F(Streams, MemoryThatWasNeverAllocatedIsNobodysBusiness) {
  order.submit(0, "fill", {{.begin = 1, .end = 2, .writes = true}});
  order.submit(1, "fill", {{.begin = 1, .end = 2, .writes = true}});
  order.free(1);
  EXPECT_EQ(sentences(), Sentences());
}

}  // namespace
}  // namespace lockstep::accelerator
