// The shape Graphs: forwards, and the order in which backwards run their graphs.
#pragma once

#include "harness/base/case.h"
#include "harness/worlds/options.h"

#include <cstddef>
#include <vector>

namespace lockstep::scenarios::accumulation_graphs_decide {

enum class Forward { synced, local };

struct Graphs {
  WorldSpec world;
  std::vector<Forward> forwards;  // empty: one that is synchronised
  std::vector<int> backwards;     // which forward's, counted cyclically; empty: each once, in order
  bool of_kept = false;           // losses are of what the module kept, not of its outputs
  WrapOptions options;
  uint64_t seed = 0;
  auto operator<=>(const Graphs&) const = default;
  static constexpr auto fields() {
    return std::tuple{field("world", &Graphs::world),
                      field("forwards", &Graphs::forwards),
                      field("backwards", &Graphs::backwards, between(0, 15)),
                      field("of_kept", &Graphs::of_kept),
                      field("options", &Graphs::options),
                      field("seed", &Graphs::seed)};
  }
};

inline std::vector<Forward> forwards_of(const Graphs& c) {
  return c.forwards.empty() ? std::vector{Forward::synced} : c.forwards;
}

inline std::vector<size_t> backwards_of(const Graphs& c) {
  const auto count = forwards_of(c).size();
  std::vector<size_t> out;
  for (const int each : c.backwards) out.push_back(static_cast<size_t>(each) % count);
  for (size_t each = 0; c.backwards.empty() && each < count; ++each) out.push_back(each);
  return out;
}

}  // namespace lockstep::scenarios::accumulation_graphs_decide
