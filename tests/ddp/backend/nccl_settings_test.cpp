#include "ddp/backend/nccl_settings.h"

#include <gtest/gtest.h>

#include <map>

namespace lockstep {
namespace {

using Variables = std::map<std::string, std::string>;

Variables set_beside(const Variables& there) {
  const auto settings = nccl_settings(
      [&](const std::string& name) -> std::optional<std::string> {
        const auto found = there.find(name);
        if (found == there.end()) return std::nullopt;
        return found->second;
      },
      std::chrono::milliseconds(1500));
  return {settings.begin(), settings.end()};
}

TEST(NcclSettings, AFailureEndsNoProcessUnlessTheUserSaysSo) {
  EXPECT_EQ(set_beside({}), (Variables{{"TORCH_NCCL_ASYNC_ERROR_HANDLING", "2"},
                                       {"TORCH_NCCL_RETHROW_CUDA_ERRORS", "0"},
                                       {"TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC", "0"},
                                       {"TORCH_NCCL_DUMP_ON_TIMEOUT", "0"},
                                       {"TORCH_NCCL_NONBLOCKING_TIMEOUT", "2"}}));
}

TEST(NcclSettings, WhatTheEnvironmentHasStays) {
  for (const auto& [name, value] : set_beside({})) {
    EXPECT_FALSE(set_beside({{name, "7"}}).contains(name)) << name;
  }
  EXPECT_FALSE(
      set_beside({{"NCCL_ASYNC_ERROR_HANDLING", "1"}}).contains("TORCH_NCCL_ASYNC_ERROR_HANDLING"));
}

TEST(NcclSettings, ARequestForDumpsGetsTheTimeForThem) {
  const auto settings = set_beside({{"TORCH_NCCL_DUMP_ON_TIMEOUT", "1"}});
  EXPECT_FALSE(settings.contains("TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC"));
}

}  // namespace
}  // namespace lockstep
