#pragma once

#include "ddp/base/waiting.h"

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace lockstep {

// Note [Ranks before the program's first collective]
// The first collective of a group splits it, which blocks until all ranks do, and any of them may
// not come: it makes no such call, or its own has failed before. So ranks first find each other in
// the group's store. A rank increments its count as it comes and as it leaves, so the count is odd
// while it is there, and no state of all counts comes twice. The split is named by that state, so
// nobody connects to what an earlier attempt left in the store; and it begins once every rank has
// seen the same state. A rank that gives up ends that attempt for the others too: they wait for its
// next call. So the next collective of all ranks works, whichever calls have failed before.

// Thrown at a deadline: "these ranks did not come: 1 (these did: 0)".
class RanksMissing : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// One rank's call among those of its group. The destructor leaves.
class ProgramRendezvous {
 public:
  // Local; blocks for some exchanges with the store, which outlives this object.
  ProgramRendezvous(c10d::Store& store, int rank, int world_size);
  ~ProgramRendezvous();
  ProgramRendezvous(const ProgramRendezvous&) = delete;
  ProgramRendezvous& operator=(const ProgramRendezvous&) = delete;

  // Returns the attempt's name, equal on all ranks and never used before. Collective; blocks.
  // Throws RanksMissing at the deadline, and what the store throws.
  std::string attempt(Deadline deadline);

 private:
  std::vector<std::int64_t> counts();
  bool appear(const std::vector<std::string>& keys, Deadline deadline);
  [[noreturn]] void name_the_missing(const std::function<bool(int rank)>& has_come) const;
  void leave_attempt(const std::string& name);

  c10d::Store& store_;
  const int rank_;
  const int world_size_;
  std::int64_t my_count_ = 0;
  std::string confirmed_;   // the attempt that this rank has confirmed last
  bool has_begun_ = false;  // it is that one, and all ranks have confirmed it
};

}  // namespace lockstep
