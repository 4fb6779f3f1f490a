// The cores on which the calling thread may run.
#pragma once

#include <optional>
#include <sched.h>

namespace lockstep {

// For one thread, or a single-threaded process. Where the system forbids it nothing happens: the
// thread is merely slower.
class Affinity {
 public:
  Affinity() = default;
  ~Affinity() { unpin(); }
  Affinity(const Affinity&) = delete;
  Affinity& operator=(const Affinity&) = delete;

  // From now on `core` alone; where there is none, any core that was allowed before.
  void pin_to(std::optional<int> core);
  // The cores that were allowed before.
  void unpin();

 private:
  std::optional<cpu_set_t> before_;  // absent while any core is allowed
};

}  // namespace lockstep
