#include "harness/invariants/local_updates.h"

#include <set>

namespace lockstep::recorded {

std::map<std::string, Moment> averaged_between_updates(const RecordedRun& run) {
  std::set<std::pair<std::string, int>> own;  // lists, and steps in which the gradients differ
  for (const auto& row : rows_of(run, "gradients"))
    if (row.is_whole() && difference_in(row, "")) own.emplace(row.of, row.at.step);
  std::map<std::string, Moment> apart, averaged;
  for (const auto& row : rows_of(run, "parameters")) {
    const bool differs = !row.is_whole() || difference_in(row, "").has_value();
    if (row.at.phase == "update" && differs && own.contains({row.of, row.at.step}))
      apart.try_emplace(row.of, row.at);
    if (row.at.phase == "update" || differs) continue;
    if (const auto found = apart.find(row.of); found != apart.end()) averaged.insert(*found);
  }
  return averaged;
}

}  // namespace lockstep::recorded
