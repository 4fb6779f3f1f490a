#include "harness/rank/call_sites.h"

#include "harness/process/stacks.h"
#include "harness/rank/record_writer.h"

namespace lockstep {

int CallSites::here() {
  if (!is_on_) return -1;
  auto stack = own_stack();
  const std::lock_guard lock(mutex_);
  const auto [found, is_new] =
      numbers_.emplace(std::move(stack), static_cast<int>(numbers_.size()));
  const auto& [frames, number] = *found;
  if (is_new)
    journal_.append(FrameKind::site, {{"site", number}}, std::as_bytes(std::span(frames)));
  return number;
}

}  // namespace lockstep
