#include "harness/worlds/launched/device_assignment.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

using Names = std::vector<std::string>;

const Names kTwo{"x", "y"}, kFour{"p", "q", "r", "s"};

Handshake process(int rank, const std::string& host, const Names& names,
                  std::optional<int> local_rank = {}) {
  Handshake handshake;
  handshake.rank = rank;
  handshake.process = 100 + rank;
  handshake.host = host;
  handshake.local_rank = local_rank;
  handshake.devices["nccl"] = {.names = names, .kind = "GPU"};
  return handshake;
}

// So many processes of one host.
std::vector<Handshake> on_one_host(int size, const Names& names) {
  std::vector<Handshake> all;
  for (int rank = 0; rank < size; ++rank) all.push_back(process(rank, "a", names));
  return all;
}

LaunchedProcesses launched_processes(const std::vector<Handshake>& all) {
  return {static_cast<int>(all.size()),
          [&](int rank) -> const Handshake& { return all.at(static_cast<size_t>(rank)); }};
}

std::vector<int> indices(const std::vector<Handshake>& all) {
  std::vector<int> out;
  for (const auto& device :
       device_assignments_of(launched_processes(all), "nccl", static_cast<int>(all.size()), "w"))
    out.push_back(device.index);
  return out;
}

std::pair<int, bool> taken(const std::vector<Handshake>& all, int size) {
  const auto of_world = devices_taken(launched_processes(all), "nccl", size);
  return {of_world.count, of_world.is_shared};
}

TEST(DeviceAssignmentTest, ALaunchersLocalRankIsTheDevicesIndex) {
  EXPECT_EQ(indices({process(0, "a", kTwo, 1), process(1, "a", kTwo, 0)}), (std::vector{1, 0}));
}

TEST(DeviceAssignmentTest, WithoutALaunchersWordRanksOfAHostAreCounted) {
  const Names other{"z", "u"};
  EXPECT_EQ(indices({process(0, "a", kTwo), process(1, "b", other), process(2, "b", other),
                     process(3, "a", kTwo)}),
            (std::vector{0, 0, 1, 1}));
}

TEST(DeviceAssignmentTest, WhereEachIsShownItsOwnDeviceItHasThatWhateverItsLocalRank) {
  const std::vector<Handshake> all{process(0, "a", {"x"}, 0), process(1, "a", {"y"}, 1)};
  EXPECT_EQ(indices(all), (std::vector{0, 0}));
  EXPECT_EQ(taken(all, 2), std::pair(2, false));
}

TEST(DeviceAssignmentTest, WhereHalvesOfAHostAreShownHalvesOfItsDevicesAllAreUsed) {
  const Names other{"z", "u"};
  const std::vector<Handshake> all{process(0, "a", kTwo, 0), process(1, "a", other, 1),
                                   process(2, "a", other, 2), process(3, "a", kTwo, 3)};
  EXPECT_EQ(indices(all), (std::vector{0, 0, 1, 1}));
  EXPECT_EQ(taken(all, 4), std::pair(4, false));
}

TEST(DeviceAssignmentTest, MoreRanksThanDevicesShareThemInTurns) {
  const auto all = on_one_host(5, kTwo);
  EXPECT_EQ(indices(all), (std::vector{0, 1, 0, 1, 0}));
  EXPECT_EQ(taken(all, 5), std::pair(2, true));
  EXPECT_EQ(taken(all, 2), std::pair(2, false));
}

TEST(DeviceAssignmentTest, ARankHasOneDeviceForWorldsOfAnySize) {
  const auto all = on_one_host(5, kFour);
  const auto whole = device_assignments_of(launched_processes(all), "nccl", 5, "w");
  const auto part = device_assignments_of(launched_processes(all), "nccl", 3, "w");
  for (size_t rank = 0; rank < part.size(); ++rank) {
    EXPECT_EQ(part[rank].index, whole[rank].index);
    EXPECT_TRUE(whole[rank].is_shared);
    EXPECT_FALSE(part[rank].is_shared);
  }
}

TEST(DeviceAssignmentTest, AWorldIsOnOneHostIfItsRanksAre) {
  const std::vector<Handshake> all{process(0, "a", kTwo), process(1, "a", kTwo),
                                   process(2, "b", kTwo)};
  EXPECT_TRUE(
      device_assignments_of(launched_processes(all), "nccl", 2, "w").front().is_on_one_host);
  EXPECT_FALSE(
      device_assignments_of(launched_processes(all), "nccl", 3, "w").front().is_on_one_host);
}

TEST(DeviceAssignmentTest, DevicesThatAreAProcesssOwnAreNeverShared) {
  auto all = on_one_host(3, {"x"});
  for (auto& one : all) one.devices["nccl"].is_own = true;
  EXPECT_EQ(taken(all, 3), std::pair(3, false));
  EXPECT_FALSE(device_assignments_of(launched_processes(all), "nccl", 3, "w").front().is_shared);
}

TEST(DeviceAssignmentTest, OtherNumbersOfDevicesAreAProblemThatNamesBothProcesses) {
  const std::vector<Handshake> all{process(0, "a", kTwo), process(1, "a", kTwo),
                                   process(2, "b", {"z"})};
  EXPECT_EQ(device_assignment_problem(launched_processes(all)),
            "the processes do not see as many devices of the backend nccl as each other: rank 2 "
            "(process 102 on host b) sees 1, and rank 0 (process 100 on host a) sees 2");
}

TEST(DeviceAssignmentTest, OneThatSeesNoneIsAProblemThatSaysWhy) {
  for (const int without : {0, 1}) {
    auto all = on_one_host(2, kTwo);
    all[static_cast<size_t>(without)].devices["nccl"] = {.names = {}, .problem = "no driver"};
    const auto sentence = device_assignment_problem(launched_processes(all));
    const auto who = "rank " + std::to_string(without) + " (process " +
                     std::to_string(100 + without) + " on host a) sees none (no driver)";
    EXPECT_NE(sentence.find(who), std::string::npos) << sentence;
  }
}

TEST(DeviceAssignmentTest, OneThatWasStartedWithoutTheBackendIsNamed) {
  auto all = on_one_host(2, kTwo);
  all[1].devices.clear();
  EXPECT_NE(device_assignment_problem(launched_processes(all))
                .find("on host a) sees none (it was started without this backend)"),
            std::string::npos);
}

TEST(DeviceAssignmentTest, WhereNoneSeesAnyNothingRunsAndThatIsNoProblem) {
  auto all = on_one_host(2, {});
  for (auto& one : all) one.devices["nccl"].problem = "no GPU";
  EXPECT_EQ(device_assignment_problem(launched_processes(all)), "");
  EXPECT_EQ(device_assignment_problem(launched_processes(on_one_host(3, kTwo))), "");
}

TEST(DeviceAssignmentTest, OnOneHostRanksShareIfThereAreFewerDevices) {
  const SeenDevices two{.names = kTwo, .kind = "GPU"};
  EXPECT_EQ(device_on_this_host(two, 3, 4, "w").index, 1);
  EXPECT_TRUE(device_on_this_host(two, 0, 4, "w").is_shared);
  EXPECT_FALSE(device_on_this_host(two, 1, 2, "w").is_shared);
  EXPECT_EQ(devices_taken_here(two, 4).count, 2);
}

}  // namespace
}  // namespace lockstep
