#include "ddp/meeting/attendance.h"

#include <cstddef>

namespace lockstep {

Attendance::Attendance(c10d::Store& store, const std::string& key, int world_size) {
  for (int rank = 0; rank < world_size; ++rank)
    (store.check({key + std::to_string(rank)}) ? present : absent).push_back(rank);
}

std::string listed(const std::vector<int>& ranks) {
  std::string text;
  for (std::size_t first = 0; first < ranks.size();) {
    std::size_t last = first;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (last == first + 1) last = first;
    text += (text.empty() ? "" : ", ") + std::to_string(ranks[first]);
    if (last > first) text += "-" + std::to_string(ranks[last]);
    first = last + 1;
  }
  return text.empty() ? "none" : text;
}

}  // namespace lockstep
