#include "harness/worlds/devices/one_gpu.h"

#include <gtest/gtest.h>

#include <map>

namespace lockstep {
namespace {

std::map<std::string, std::string> environment_of(int rank, NcclVersion version) {
  const EnvironmentVariables variables = one_gpu_environment(rank, "run7", version, Hosts::one);
  const std::map<std::string, std::string> by_name(variables.begin(), variables.end());
  EXPECT_EQ(by_name.size(), variables.size()) << "a variable is set twice";
  return by_name;
}

TEST(OneGpu, EveryRankIsAHostOfItsOwnAndNothingElseDiffers) {
  auto first = environment_of(0, {2, 28});
  auto second = environment_of(1, {2, 28});
  EXPECT_EQ(first["NCCL_HOSTID"], "run7-rank0");
  EXPECT_EQ(second["NCCL_HOSTID"], "run7-rank1");
  first.erase("NCCL_HOSTID");
  second.erase("NCCL_HOSTID");
  EXPECT_EQ(first, second);
}

TEST(OneGpu, WorldsThatAreAliveAtOnceHaveDifferentHosts) {
  EXPECT_NE(one_gpu_environment(0, "a", {2, 28}, Hosts::one),
            one_gpu_environment(0, "b", {2, 28}, Hosts::one));
}

TEST(OneGpu, NoWayOfOneHostAndNoNetworkButLoopbackIsLeft) {
  const auto variables = environment_of(0, {2, 29});
  for (const char* name : {"NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE", "NCCL_IB_DISABLE"})
    EXPECT_EQ(variables.at(name), "1") << name;
  for (const char* name : {"NCCL_MNNVL_ENABLE", "NCCL_NVLS_ENABLE", "NCCL_CUMEM_ENABLE"})
    EXPECT_EQ(variables.at(name), "0") << name;
  EXPECT_EQ(variables.at("NCCL_NET"), "Socket");
  EXPECT_EQ(variables.at("NCCL_SOCKET_IFNAME"), "=lo");
}

TEST(OneGpu, OverSeveralHostsLoopbackIsNotTheWay) {
  for (const auto& [name, value] : one_gpu_environment(0, "run7", {2, 28}, Hosts::several))
    EXPECT_NE(name, "NCCL_SOCKET_IFNAME") << value;
}

TEST(OneGpu, KernelsOfOneRankLeaveRoomForTheOthers) {
  const auto variables = environment_of(0, {2, 28});
  EXPECT_EQ(variables.at("NCCL_MAX_CTAS"), "1");
  EXPECT_EQ(variables.at("NCCL_MAX_NCHANNELS"), "1");
}

TEST(OneGpu, From230OnNcclIsAskedForIt) {
  for (const NcclVersion version : {NcclVersion{2, 30}, NcclVersion{2, 31}, NcclVersion{3, 0}}) {
    const auto variables = environment_of(1, version);
    EXPECT_EQ(variables.at("NCCL_MULTI_RANK_GPU_ENABLE"), "1");
    EXPECT_FALSE(variables.contains("NCCL_HOSTID"));
  }
  EXPECT_FALSE(environment_of(1, {2, 29}).contains("NCCL_MULTI_RANK_GPU_ENABLE"));
}

TEST(OneGpu, AFailureIsReportedByTheRankAndNotByItsEnd) {
  for (const NcclVersion version : {NcclVersion{2, 28}, NcclVersion{2, 30}})
    EXPECT_EQ(environment_of(0, version).at("TORCH_NCCL_ASYNC_ERROR_HANDLING"), "2");
}

}  // namespace
}  // namespace lockstep
