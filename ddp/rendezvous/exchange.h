#pragma once

#include "ddp/base/environment.h"
#include "ddp/base/waiting.h"

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

// The result of an exchange: equal in every process that reads it, except for `has_own`.
struct Exchanged {
  struct Entry {
    int rank = 0;
    std::string text;
  };
  std::vector<Entry> entries;  // in the order of arrival
  bool has_own = false;        // false: this process arrived after the exchange had ended

  // The ranks with and without an entry, in ascending order.
  std::vector<int> present() const;
  std::vector<int> missing(int world_size) const;
};

// An all-gather of texts through a store, before there is a process group. It ends when world_size
// processes have arrived, or at the deadline of any of them, with the entries there are then. The
// first process that ends it writes the result, so that all read the same one, however their
// deadlines differ. A rank that arrived twice has two entries.
//
// `name` identifies the exchange in the store. Collective; blocks until the exchange has ended.
// Throws what the store throws.
Exchanged exchange(c10d::Store& store, const std::string& name, const RankAndSize& position,
                   const std::string& text, Deadline deadline);

// The result if the exchange has ended; never blocks, and `has_own` is false. Local; throws what
// the store throws.
std::optional<Exchanged> result_of_exchange(c10d::Store& store, const std::string& name);

// For a process that cannot continue with the result it read, and that may host the store: blocks
// until all processes that arrived, and at least `expected`, have called this, for two seconds at
// most, since dead processes do not. Rank 0, which usually hosts the store, returns a moment later,
// because c10d prints a stack trace in every client of a store that is gone. Collective; throws
// nothing.
void stay_until_read(c10d::Store& store, const std::string& name, int rank, std::int64_t expected);

}  // namespace lockstep
