#include "scenarios/subjects/pytorch_options.h"

#include <utility>

namespace lockstep {

void refuse_what_pytorch_lacks(const WrapOptions& options) {
  const auto& further = options.further;
  const auto lacks = [](const std::string& what) {
    return Unsupported("PyTorch's DistributedDataParallel has no " + what +
                       ", so no wrapper in Python is asked for it");
  };
  if (!options.buffer_sync_lag)
    throw Unsupported("PyTorch always leaves buffers alone in the forward after a local one");
  if (further.forward_sync_buffers) throw lacks("forward_sync_buffers beside broadcast_buffers");
  if (further.timeout_ms) throw lacks("timeout of its own");
  if (further.on_some_rank) throw lacks("options such as some rank's");
  if (further.broadcast_cap_bytes < 0) throw lacks("option for the size of its broadcasts");
  if (further.check_replicas_every != 0) throw lacks("comparison of replicas");
  if (!options.buffer_hook.empty()) throw lacks("hook that averages buffers");
  if (options.local_sgd)
    throw Unsupported("this subject makes no subgroups for PyTorch's post_localSGD_hook");
}

void refuse_waits_in_callbacks(const WrapOptions& options, const Group& group) {
  if (options.hook && options.hook->kind == HookKind::power_sgd &&
      group->getBackend(c10::kCPU)->getBackendName() == "gloo")
    throw Unsupported(
        "PyTorch's powerSGD_hook waits for a collective in another's callback, for which the one "
        "Gloo thread of these worlds does not suffice");
}

pytorch::Values keywords_of(const WrapOptions& options) {
  constexpr double kMebibyte = 1024.0 * 1024.0;
  pytorch::Values out{
      {"broadcast_buffers", options.further.broadcast_buffers.value_or(options.broadcast_buffers)},
      {"init_sync", options.init_sync}};
  // An option that a PyTorch does not know is an error only where it is on.
  for (const auto& each : WrapOptions::kSwitches)
    if (options.*each.value) out[each.name] = true;
  if (options.bucket_cap_bytes != 0)
    out["bucket_cap_mb"] = static_cast<double>(options.bucket_cap_bytes) / kMebibyte;
  std::vector<double> caps;
  for (const auto cap : options.bucket_caps_bytes)
    caps.push_back(static_cast<double>(cap) / kMebibyte);
  if (!caps.empty()) out["bucket_cap_mb_list"] = std::move(caps);
  return out;
}

pytorch::Values values_of(const HookOptions& options) {
  return {{"kind", word_of(options.kind)},
          {"around", word_of(options.around)},
          {"matrix_rank", options.matrix_rank},
          {"start", options.start},
          {"use_error_feedback", options.use_error_feedback},
          {"warm_start", options.warm_start},
          {"compression_log2", options.compression_log2},
          {"random_seed", options.random_seed}};
}

}  // namespace lockstep
