#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <string>
#include <vector>

namespace lockstep {

// The ranks that have left a key of theirs, `key` and their number, in a store, and those that have
// not. Local; throws what the store throws.
struct Attendance {
  std::vector<int> present, absent;

  Attendance(c10d::Store& store, const std::string& key, int world_size);
};

// "0, 3-7": of many ranks a sentence, not a page. Of ascending numbers; "none" of none.
std::string listed(const std::vector<int>& ranks);

}  // namespace lockstep
