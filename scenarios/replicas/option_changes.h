// How the options of one rank may differ from its peers', by the word of a Difference.
#pragma once

#include "harness/worlds/options.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace lockstep::scenarios::replicas {

// The parameter that every model of the shape Differing has, behind all others.
inline constexpr const char* kLast = "last";

struct OptionChange {
  std::string_view word;
  bool WrapOptions::*flipped = nullptr;  // the switch that changes, where it is one
  void (*change)(WrapOptions&) = nullptr;

  void apply(WrapOptions& options) const {
    if (flipped)
      options.*flipped = !(options.*flipped);
    else
      change(options);
  }
};

namespace option_changes {

constexpr int64_t kOtherCap = 1 << 18;

inline constexpr OptionChange kBefore[]{
    {"init_sync", &WrapOptions::init_sync},
    {"broadcast_buffers", &WrapOptions::broadcast_buffers},
    {"old_name", nullptr,
     [](WrapOptions& all) { all.further.broadcast_buffers = all.broadcast_buffers; }},
    {"two_names", nullptr,
     [](WrapOptions& all) {
       all.further.forward_sync_buffers = true;
       all.further.broadcast_buffers = false;
     }},
    {"buffer_sync_lag", &WrapOptions::buffer_sync_lag},
    {"check_replicas", nullptr, [](WrapOptions& all) { all.further.check_replicas_every = 1000; }},
    {"negative_check_replicas", nullptr,
     [](WrapOptions& all) { all.further.check_replicas_every = -1; }},
    {"broadcast_cap", nullptr,
     [](WrapOptions& all) { all.further.broadcast_cap_bytes = kOtherCap; }},
    {"negative_broadcast_cap", nullptr,
     [](WrapOptions& all) { all.further.broadcast_cap_bytes = -1; }},
    {"cap", nullptr,
     [](WrapOptions& all) {
       all.bucket_cap_bytes = all.bucket_cap_bytes == kOtherCap ? 0 : kOtherCap;
     }},
    {"negative_cap", nullptr, [](WrapOptions& all) { all.bucket_cap_bytes = -1; }},
    {"caps", nullptr, [](WrapOptions& all) { all.bucket_caps_bytes.push_back(kOtherCap); }},
    {"negative_last_cap", nullptr,
     [](WrapOptions& all) {
       all.bucket_cap_bytes = 0;
       all.bucket_caps_bytes = {kOtherCap, -1};
     }},
    {"two_caps", nullptr, [](WrapOptions& all) {
       all.bucket_cap_bytes = kOtherCap;
       all.bucket_caps_bytes = {kOtherCap};
     }}};

inline constexpr OptionChange kBehind[]{
    {"ignored_nothing", nullptr, [](WrapOptions& all) { all.ignored.push_back("nothing"); }},
    {"no_trigger", nullptr,
     [](WrapOptions& all) {
       all.delayed = {kLast};
       all.delayed_until.clear();
     }},
    {"trigger_is_nothing", nullptr,
     [](WrapOptions& all) {
       all.delayed = {kLast};
       all.delayed_until = "nothing";
     }},
    {"timeout", nullptr, [](WrapOptions& all) { all.further.timeout_ms = 200'000; }},
    {"no_timeout", nullptr, [](WrapOptions& all) { all.further.timeout_ms = 0; }}};

constexpr auto all() {
  std::array<OptionChange,
             std::size(kBefore) + std::size(WrapOptions::kSwitches) + std::size(kBehind)>
      changes{};
  auto* next = std::copy(std::begin(kBefore), std::end(kBefore), changes.begin());
  for (const auto& each : WrapOptions::kSwitches) *next++ = {each.name, each.value};
  std::copy(std::begin(kBehind), std::end(kBehind), next);
  return changes;
}

}  // namespace option_changes

inline constexpr auto kOptionChanges = option_changes::all();

}  // namespace lockstep::scenarios::replicas
