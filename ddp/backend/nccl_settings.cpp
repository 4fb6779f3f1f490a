#include "ddp/backend/nccl_settings.h"

namespace lockstep {

NcclSettings nccl_settings(const EnvironmentLookup& lookup, std::chrono::milliseconds timeout) {
  NcclSettings settings;
  const auto set = [&](const std::string& name, const std::string& unless, std::string value) {
    if (lookup(name) || (!unless.empty() && lookup(unless))) return;
    settings.emplace_back(name, std::move(value));
  };
  const std::string dumps = "TORCH_NCCL_DUMP_ON_TIMEOUT";
  set("TORCH_NCCL_ASYNC_ERROR_HANDLING", "NCCL_ASYNC_ERROR_HANDLING", "2");
  set("TORCH_NCCL_RETHROW_CUDA_ERRORS", "", "0");
  set("TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC", dumps, "0");
  set(dumps, "", "0");
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(timeout).count();
  set("TORCH_NCCL_NONBLOCKING_TIMEOUT", "", std::to_string(seconds));
  return settings;
}

}  // namespace lockstep
