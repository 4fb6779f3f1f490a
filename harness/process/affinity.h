// On which cores the calling thread runs.
#pragma once

#include <optional>
#include <sched.h>

namespace lockstep {

// For one thread, or a process of one. Where the system forbids it nothing happens: it is merely
// slower.
class Affinity {
 public:
  Affinity() = default;
  ~Affinity() { roam(); }
  Affinity(const Affinity&) = delete;
  Affinity& operator=(const Affinity&) = delete;

  // From now on on `core` alone; on any that was allowed before where there is none.
  void stay_on(std::optional<int> core);
  // Where it was allowed before.
  void roam();

 private:
  std::optional<cpu_set_t> before_;  // absent while it roams
};

}  // namespace lockstep
