#include "harness/worlds/launched/rendezvous.h"

#include "harness/cases/tier.h"
#include "harness/process/network.h"

#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <future>

namespace lockstep {
namespace {

using namespace std::chrono_literals;

constexpr char kHere[] = "127.0.0.1";
const std::string kKeys = "keys";

// The outcomes of the processes of a rendezvous at one port, each run by a thread.
class HereOnly {
 public:
  StorePlace place() const {
    return {.address = kHere,
            .port = listener_.port,
            .holder = "rank 0, which holds it,",
            .keys = kKeys};
  }
  StorePlace place_of_rank_zero() {
    auto served = place();
    served.listens = std::move(listener_.socket);
    served.served_at = kHere;
    return served;
  }

  // Returns rank 0's text, or the reason.
  static std::string outcome(StorePlace place, const RendezvousRank& own,
                             std::chrono::milliseconds limit = 20s) {
    try {
      auto met = rendezvous_through(std::move(place), own,
                                    own.rank == 0 ? "rank 0's text" : "another text", limit);
      static std::vector<std::shared_ptr<void>> kept;
      if (met.store) kept.push_back(met.store);
      return met.from_rank_zero;
    } catch (const TierError& error) {
      const std::string text = error.what();
      return text.substr(text.find(" ms: ") + 5);
    }
  }

  // Returns the outcome of rank 0, then of the others in their order.
  std::vector<std::string> outcomes(const RendezvousRank& rank_zero,
                                    const std::vector<RendezvousRank>& others,
                                    std::chrono::milliseconds limit = 20s) {
    std::vector<std::future<std::string>> all;
    all.push_back(std::async(std::launch::async, [&, served = place_of_rank_zero()]() mutable {
      return outcome(std::move(served), rank_zero, limit);
    }));
    for (const auto& other : others)
      all.push_back(
          std::async(std::launch::async, [&, this] { return outcome(place(), other, limit); }));
    std::vector<std::string> found;
    for (auto& each : all) found.push_back(each.get());
    return found;
  }

 private:
  ListeningSocket listener_ = listen_on(kHere);
};

RendezvousRank rank_of(int rank, int size, const std::string& version = "Lockstep 1") {
  return {.rank = rank, .size = size, .version = version};
}

TEST(Rendezvous, AllReceiveRankZerosText) {
  for (const int size : {1, 2, 5}) {
    std::vector<RendezvousRank> others;
    for (int rank = size - 1; rank > 0; --rank) others.push_back(rank_of(rank, size));
    EXPECT_EQ(HereOnly().outcomes(rank_of(0, size), others),
              std::vector<std::string>(static_cast<size_t>(size), "rank 0's text"));
  }
}

TEST(Rendezvous, RanksThatDoNotComeAreNamedToAllThatDid) {
  EXPECT_EQ(HereOnly().outcomes(rank_of(0, 6), {rank_of(2, 6)}, 300ms),
            std::vector<std::string>(2, "these ranks did not come: 1, 3-5 (these did: 0, 2)"));
}

TEST(Rendezvous, ARankThatComesTwiceIsRefusedOnAll) {
  const auto found = HereOnly().outcomes(rank_of(0, 3), {rank_of(1, 3), rank_of(1, 3)});
  EXPECT_TRUE(found[0].starts_with("rank 1 has arrived here before: two processes have this rank"))
      << found[0];
  EXPECT_EQ(found, std::vector<std::string>(3, found[0]));
}

TEST(Rendezvous, AProcessThatComesAfterAllHaveComeIsRefusedAlone) {
  HereOnly here;
  EXPECT_EQ(here.outcomes(rank_of(0, 2), {rank_of(1, 2)}),
            std::vector<std::string>(2, "rank 0's text"));
  EXPECT_TRUE(
      HereOnly::outcome(here.place(), rank_of(1, 2)).starts_with("rank 1 has arrived here before"));
}

TEST(Rendezvous, OtherWorldSizesAndVersionsAreRefusedOnAll) {
  EXPECT_EQ(HereOnly().outcomes(rank_of(0, 2), {rank_of(1, 3)}),
            std::vector<std::string>(2,
                                     "the processes do not agree on the world size: rank 0 has "
                                     "2, and rank 1 has 3"));
  const auto found = HereOnly().outcomes(rank_of(0, 2), {rank_of(1, 2, "Lockstep 2")});
  EXPECT_TRUE(
      found[0].starts_with("the processes do not agree on the version: rank 0 has "
                           "Lockstep 1 on PyTorch 2."))
      << found[0];
  EXPECT_EQ(found[1], found[0]);
}

TEST(Rendezvous, APlaceWhereNobodyListensIsSaid) {
  int port = 0;
  { port = listen_on(kHere).port; }
  StorePlace nowhere{
      .address = kHere, .port = port, .holder = "rank 0, which holds it,", .keys = kKeys};
  EXPECT_EQ(HereOnly::outcome(std::move(nowhere), rank_of(1, 2), 200ms),
            "no store answers there: rank 0, which holds it, has not come, has ended, or is on "
            "another host (Connection refused)");
}

TEST(Rendezvous, AProgramThatIsNoStoreIsSaid) {
  const auto silent = listen_on(kHere);
  StorePlace place{
      .address = kHere, .port = silent.port, .holder = "rank 0, which holds it,", .keys = kKeys};
  EXPECT_TRUE(HereOnly::outcome(std::move(place), rank_of(1, 2), 500ms)
                  .starts_with("what accepts connections there does not answer as a store: it is "
                               "another program, or rank 0, which holds it, is stopped"));
  StorePlace taken{.address = kHere,
                   .port = silent.port,
                   .holder = "rank 0, which holds it,",
                   .keys = kKeys,
                   .is_in_use = true};
  EXPECT_TRUE(HereOnly::outcome(std::move(taken), rank_of(0, 2), 500ms)
                  .starts_with("rank 0 cannot open the store there: the port is in use"));
}

// A process that sets the keys that it knows beforehand.
TEST(Rendezvous, RankZerosTextIsAtNoKeyThatIsKnownBeforehand) {
  HereOnly here;
  const auto port = here.place().port;
  auto rank_zero = std::async(std::launch::async, [served = here.place_of_rank_zero()]() mutable {
    return HereOnly::outcome(std::move(served), rank_of(0, 2));
  });
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(port);
  options.waitWorkers = false;
  const c10::intrusive_ptr<c10d::Store> store = c10::make_intrusive<c10d::TCPStore>(kHere, options);
  for (const char* const key : {"reply/", "reply/1", "rank_zero", "reply/0", "reply/2"})
    store->set(kKeys + "/" + key, std::string("a stranger's text"));
  EXPECT_EQ(HereOnly::outcome(here.place(), rank_of(1, 2)), "rank 0's text");
  EXPECT_EQ(rank_zero.get(), "rank 0's text");
}

}  // namespace
}  // namespace lockstep
