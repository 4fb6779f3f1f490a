#include "harness/worlds/gloo/shared_memory_store.h"

#include "harness/process/child_group.h"
#include "harness/process/shared_memory.h"
#include "tests/process/support.h"

#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <atomic>
#include <csignal>
#include <sys/wait.h>

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using Bytes = std::vector<uint8_t>;
using testing_support::eventually;

constexpr size_t kRoom = size_t{64} << 20;

class SharedMemoryStoreTest : public testing_support::LeavesNothing {
 protected:
  void SetUp() override {
    LeavesNothing::SetUp();
    SharedMemoryStore::reset(memory_.bytes());
  }
  c10::intrusive_ptr<SharedMemoryStore> store(std::chrono::milliseconds timeout = 20s) const {
    return c10::make_intrusive<SharedMemoryStore>(memory_.bytes(), timeout);
  }
  std::string why(const std::function<void()>& act) const {
    try {
      act();
    } catch (const c10::DistStoreError& error) {
      return error.what_without_backtrace();
    }
    return "nothing was thrown";
  }
  std::vector<ChildEnd> in_children(int count, const std::function<int(int)>& run) const {
    ChildGroup group({}, count, run);
    return group.wait({.deadline = std::chrono::steady_clock::now() + 60s}).ends;
  }

  SharedMemory memory_{kRoom};
};

TEST_F(SharedMemoryStoreTest, GivesBackWhatWasSet) {
  store()->set("key", Bytes{1, 2, 3});
  EXPECT_EQ(store()->get("key"), (Bytes{1, 2, 3}));
  store()->set("key", Bytes{});
  EXPECT_EQ(store()->get("key"), Bytes{});
  store()->set("key", Bytes(1000, 7));
  EXPECT_EQ(store()->get("key"), Bytes(1000, 7));
  EXPECT_EQ(store()->getNumKeys(), 1);
}

TEST_F(SharedMemoryStoreTest, ManyKeysAreKeptApart) {
  for (int i = 0; i < 5000; ++i) store()->set("key" + std::to_string(i), std::to_string(i));
  for (int i = 0; i < 5000; ++i)
    ASSERT_EQ(store()->get_to_str("key" + std::to_string(i)), std::to_string(i));
  EXPECT_EQ(store()->getNumKeys(), 5000);
}

TEST_F(SharedMemoryStoreTest, ADeletedKeyIsGoneAndCanComeBack) {
  EXPECT_FALSE(store()->deleteKey("key"));
  store()->set("key", Bytes{1});
  EXPECT_TRUE(store()->deleteKey("key"));
  EXPECT_FALSE(store()->check({"key"}));
  EXPECT_EQ(store()->listKeys(), std::vector<std::string>{});
  store()->set("key", Bytes{2});
  EXPECT_EQ(store()->get("key"), Bytes{2});
}

TEST_F(SharedMemoryStoreTest, CompareSetSetsOnlyWhatItExpected) {
  EXPECT_EQ(store()->compareSet("key", "other", "new"), "other") << "nothing there: nothing set";
  EXPECT_FALSE(store()->check({"key"}));
  EXPECT_EQ(store()->compareSet("key", "", "first"), "first");
  EXPECT_EQ(store()->compareSet("key", "other", "second"), "first");
  EXPECT_EQ(store()->compareSet("key", "first", "second"), "second");
  EXPECT_EQ(store()->get_to_str("key"), "second");
}

TEST_F(SharedMemoryStoreTest, AddsOfManyProcessesAllCount) {
  const auto ends = in_children(4, [&](int) {
    for (int i = 0; i < 1000; ++i) store()->add("count", 2);
    return 0;
  });
  for (const auto& end : ends) EXPECT_EQ(end, ChildEnd{});
  EXPECT_EQ(store()->add("count", -1), 7999);
  EXPECT_EQ(store()->get_to_str("count"), "7999");
}

TEST_F(SharedMemoryStoreTest, TheExtendedCallsWork) {
  ASSERT_TRUE(store()->hasExtendedApi());
  store()->multiSet({"a", "b"}, {Bytes{1}, Bytes{2}});
  store()->append("a", Bytes{3});
  store()->append("new", Bytes{4});
  EXPECT_EQ(store()->multiGet({"a", "b", "new"}), (std::vector<Bytes>{{1, 3}, {2}, {4}}));
}

TEST_F(SharedMemoryStoreTest, QueuesAreFirstInFirstOut) {
  EXPECT_EQ(store()->queueLen("q"), 0);
  store()->queuePush("q", Bytes{1, 2});
  store()->queuePush("q", Bytes{});
  store()->queuePush("q", Bytes{3});
  EXPECT_EQ(store()->queueLen("q"), 3);
  EXPECT_EQ(store()->queuePop("q", true), (Bytes{1, 2}));
  EXPECT_EQ(store()->queuePop("q", false), Bytes{});
  EXPECT_EQ(store()->queuePop("q", true), Bytes{3});
  EXPECT_THROW(store()->queuePop("q", false), c10::DistQueueEmptyError);
  EXPECT_EQ(store()->getNumKeys(), 0) << "a queue is no key";
}

TEST_F(SharedMemoryStoreTest, AWaiterWakesWhenAnotherProcessSets) {
  const auto ends = in_children(3, [&](int index) {
    if (index == 0) store()->set("go", "1");
    if (index == 1) store()->wait({"go", "more"});
    if (index == 2) {
      store()->get("go");
      store()->set("more", "1");
    }
    return 0;
  });
  for (const auto& end : ends) EXPECT_EQ(end, ChildEnd{});
}

TEST_F(SharedMemoryStoreTest, AWaitEndsAtItsTimeoutAndNamesWhatIsMissing) {
  store()->set("here", "1");
  EXPECT_EQ(why([&] { store(30ms)->get("never"); }), "waited 30 ms for the store's 'never'");
  EXPECT_EQ(why([&] {
              store()->wait({"here", "a", "b"}, 20ms);
            }),
            "waited 20 ms for the store's 'a', 'b'");
  EXPECT_EQ(why([&] { store(20ms)->queuePop("q", true); }), "waited 20 ms for the store's 'q'");
}

// The child is killed as it sets out to write four megabytes under the lock; asking the store
// whether it has begun would take the lock from it.
TEST_F(SharedMemoryStoreTest, AKilledLockHolderLeavesAWholeStore) {
  const SharedMemory board(4096);
  auto& begun = *reinterpret_cast<std::atomic<int>*>(board.bytes().data());
  for (int round = 0; round < 50; ++round) {
    SharedMemoryStore::reset(memory_.bytes());
    begun = 0;
    const pid_t child = fork();
    if (child == 0)
      for (uint8_t i = 0;; ++i) {
        const Bytes value(size_t{4} << 20, i);
        begun = i + 1;
        store()->set("big", value);
      }
    while (begun <= 2 + round % 3) sched_yield();
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    const auto big = store()->get("big");
    EXPECT_EQ(big, Bytes(size_t{4} << 20, big.front()));
    store()->set("after", "1");
    EXPECT_EQ(store()->get_to_str("after"), "1");
    EXPECT_EQ(store()->getNumKeys(), 2);
  }
}

TEST_F(SharedMemoryStoreTest, AKilledWaiterDisturbsNobody) {
  for (int round = 0; round < 20; ++round) {
    const std::string key = "key" + std::to_string(round);
    const pid_t victim = fork();
    if (victim == 0) {
      store()->set(key + "/waiting", "1");
      store()->get(key);
      _exit(0);
    }
    store()->get(key + "/waiting");
    kill(victim, SIGKILL);
    waitpid(victim, nullptr, 0);
    const auto ends = in_children(2, [&](int index) {
      if (index == 0) return store()->get_to_str(key) == "1" ? 0 : 1;
      store()->set(key, "1");
      return 0;
    });
    EXPECT_EQ(ends, (std::vector<ChildEnd>{{}, {}}));
  }
}

TEST_F(SharedMemoryStoreTest, AFullStoreSaysSo) {
  SharedMemory small(size_t{16} << 10);
  SharedMemoryStore::reset(small.bytes());
  SharedMemoryStore full(small.bytes(), 20s);
  full.set("fits", Bytes(100, 1));
  const auto text = why([&] { full.set("large", Bytes(20'000, 1)); });
  EXPECT_NE(text.find("the store is full: "), std::string::npos) << text;
  EXPECT_NE(text.find(" of 16384 bytes are used, and an entry needs 20"), std::string::npos);
  EXPECT_EQ(full.get("fits"), Bytes(100, 1)) << "and continues";
}

TEST_F(SharedMemoryStoreTest, WritingOneKeyAgainAndAgainNeedsNoMoreRoom) {
  for (int i = 0; i < 2; ++i) store()->set("key", Bytes(1000, 1));
  const auto used = SharedMemoryStore::used(memory_.bytes());
  for (int i = 0; i < 1000; ++i) store()->set("key", Bytes(1000, 2));
  EXPECT_EQ(SharedMemoryStore::used(memory_.bytes()), used);
}

TEST_F(SharedMemoryStoreTest, ServesBehindAPrefix) {
  const auto prefixed = c10::make_intrusive<c10d::PrefixStore>("group", store());
  prefixed->set("key", Bytes{1});
  EXPECT_EQ(store()->get("group/key"), Bytes{1});
  EXPECT_EQ(prefixed->clone()->get("key"), Bytes{1});
}

}  // namespace
}  // namespace lockstep
