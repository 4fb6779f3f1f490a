#include "harness/world/launched/seating.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

using Names = std::vector<std::string>;

const Names kTwo{"x", "y"}, kFour{"p", "q", "r", "s"};

Hello process(int rank, const std::string& host, const Names& names,
              std::optional<int> local_rank = {}) {
  Hello hello;
  hello.rank = rank;
  hello.process = 100 + rank;
  hello.host = host;
  hello.local_rank = local_rank;
  hello.devices["nccl"] = {.names = names, .kind = "GPU"};
  return hello;
}

// So many processes of one host.
std::vector<Hello> on_one_host(int size, const Names& names) {
  std::vector<Hello> all;
  for (int rank = 0; rank < size; ++rank) all.push_back(process(rank, "a", names));
  return all;
}

Launchees launchees(const std::vector<Hello>& all) {
  return {static_cast<int>(all.size()),
          [&](int rank) -> const Hello& { return all.at(static_cast<size_t>(rank)); }};
}

std::vector<int> indices(const std::vector<Hello>& all) {
  std::vector<int> out;
  for (const auto& seat : seats_of(launchees(all), "nccl", static_cast<int>(all.size()), "w"))
    out.push_back(seat.index);
  return out;
}

std::pair<int, bool> taken(const std::vector<Hello>& all, int size) {
  const auto of_world = devices_taken(launchees(all), "nccl", size);
  return {of_world.count, of_world.is_shared};
}

TEST(Seating, ALaunchersLocalRankIsTheDevicesIndex) {
  EXPECT_EQ(indices({process(0, "a", kTwo, 1), process(1, "a", kTwo, 0)}), (std::vector{1, 0}));
}

TEST(Seating, WithoutALaunchersWordRanksOfAHostAreCounted) {
  const Names other{"z", "u"};
  EXPECT_EQ(indices({process(0, "a", kTwo), process(1, "b", other), process(2, "b", other),
                     process(3, "a", kTwo)}),
            (std::vector{0, 0, 1, 1}));
}

TEST(Seating, WhereEachIsShownItsOwnDeviceItHasThatWhateverItsLocalRank) {
  const std::vector<Hello> all{process(0, "a", {"x"}, 0), process(1, "a", {"y"}, 1)};
  EXPECT_EQ(indices(all), (std::vector{0, 0}));
  EXPECT_EQ(taken(all, 2), std::pair(2, false));
}

TEST(Seating, WhereHalvesOfAHostAreShownHalvesOfItsDevicesAllAreUsed) {
  const Names other{"z", "u"};
  const std::vector<Hello> all{process(0, "a", kTwo, 0), process(1, "a", other, 1),
                               process(2, "a", other, 2), process(3, "a", kTwo, 3)};
  EXPECT_EQ(indices(all), (std::vector{0, 0, 1, 1}));
  EXPECT_EQ(taken(all, 4), std::pair(4, false));
}

TEST(Seating, MoreRanksThanDevicesShareThemInTurns) {
  const auto all = on_one_host(5, kTwo);
  EXPECT_EQ(indices(all), (std::vector{0, 1, 0, 1, 0}));
  EXPECT_EQ(taken(all, 5), std::pair(2, true));
  EXPECT_EQ(taken(all, 2), std::pair(2, false));
}

TEST(Seating, ARankHasOneDeviceForWorldsOfAnySize) {
  const auto all = on_one_host(5, kFour);
  const auto whole = seats_of(launchees(all), "nccl", 5, "w");
  const auto part = seats_of(launchees(all), "nccl", 3, "w");
  for (size_t rank = 0; rank < part.size(); ++rank) {
    EXPECT_EQ(part[rank].index, whole[rank].index);
    EXPECT_TRUE(whole[rank].is_shared);
    EXPECT_FALSE(part[rank].is_shared);
  }
}

TEST(Seating, AWorldIsOnOneHostIfItsRanksAre) {
  const std::vector<Hello> all{process(0, "a", kTwo), process(1, "a", kTwo), process(2, "b", kTwo)};
  EXPECT_TRUE(seats_of(launchees(all), "nccl", 2, "w").front().is_on_one_host);
  EXPECT_FALSE(seats_of(launchees(all), "nccl", 3, "w").front().is_on_one_host);
}

TEST(Seating, DevicesThatAreAProcesssOwnAreNeverShared) {
  auto all = on_one_host(3, {"x"});
  for (auto& one : all) one.devices["nccl"].is_own = true;
  EXPECT_EQ(taken(all, 3), std::pair(3, false));
  EXPECT_FALSE(seats_of(launchees(all), "nccl", 3, "w").front().is_shared);
}

TEST(Seating, OtherNumbersOfDevicesAreAProblemThatNamesBothProcesses) {
  const std::vector<Hello> all{process(0, "a", kTwo), process(1, "a", kTwo),
                               process(2, "b", {"z"})};
  EXPECT_EQ(seating_problem(launchees(all)),
            "the processes do not see as many devices of the backend nccl as each other: rank 2 "
            "(process 102 on host b) sees 1, and rank 0 (process 100 on host a) sees 2");
}

TEST(Seating, OneThatSeesNoneIsAProblemThatSaysWhy) {
  for (const int without : {0, 1}) {
    auto all = on_one_host(2, kTwo);
    all[static_cast<size_t>(without)].devices["nccl"] = {.names = {}, .problem = "no driver"};
    const auto sentence = seating_problem(launchees(all));
    const auto who = "rank " + std::to_string(without) + " (process " +
                     std::to_string(100 + without) + " on host a) sees none (no driver)";
    EXPECT_NE(sentence.find(who), std::string::npos) << sentence;
  }
}

TEST(Seating, OneThatWasStartedWithoutTheBackendIsNamed) {
  auto all = on_one_host(2, kTwo);
  all[1].devices.clear();
  EXPECT_NE(seating_problem(launchees(all))
                .find("on host a) sees none (it was started without this backend)"),
            std::string::npos);
}

TEST(Seating, WhereNoneSeesAnyNothingIsPlayedAndThatIsNoProblem) {
  auto all = on_one_host(2, {});
  for (auto& one : all) one.devices["nccl"].problem = "no GPU";
  EXPECT_EQ(seating_problem(launchees(all)), "");
  EXPECT_EQ(seating_problem(launchees(on_one_host(3, kTwo))), "");
}

TEST(Seating, OnOneHostRanksShareIfThereAreFewerDevices) {
  const SeenDevices two{.names = kTwo, .kind = "GPU"};
  EXPECT_EQ(seat_on_this_host(two, 3, 4, "w").index, 1);
  EXPECT_TRUE(seat_on_this_host(two, 0, 4, "w").is_shared);
  EXPECT_FALSE(seat_on_this_host(two, 1, 2, "w").is_shared);
  EXPECT_EQ(devices_taken_here(two, 4).count, 2);
}

}  // namespace
}  // namespace lockstep
