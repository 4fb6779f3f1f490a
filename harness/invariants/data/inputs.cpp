// Judges the samples of forwards that no loader handed out.
#include "harness/base/text.h"
#include "harness/invariants/data/overlaps.h"

#include <algorithm>
#include <map>
#include <set>

namespace lockstep::recorded {

namespace {

using Rows = std::vector<std::string>;  // prints of samples, in order

std::map<std::string, Rows> inputs_of(const Rank& rank) {
  std::map<std::string, Rows> all;  // by model
  for (const auto& record : rank.records)
    if (const auto* fact = fact_in(record, fact::kInputs))
      for (auto& print : fact->texts("rows")) all[fact->text("model")].push_back(std::move(print));
  return all;
}

// How many samples come before the first that repeats one.
size_t without_repeat(const Rows& rows) {
  std::set<std::string> seen;
  for (const auto& row : rows)
    if (!seen.insert(row).second) break;
  return seen.size();
}

}  // namespace

SharedInputs shared_inputs(const RecordedRun& run) {
  constexpr size_t kPassLeast = 16, kSharedLeast = 8;
  std::vector<std::map<std::string, Rows>> all;
  for (const auto& rank : run.ranks) all.push_back(inputs_of(rank));
  for (const auto& [model, first] : all.front()) {
    size_t pass = without_repeat(first);
    std::set<std::string> distinct;
    size_t drawn = 0;
    for (const auto& rank : all) {
      const auto found = rank.find(model);
      pass = std::min(pass, found == rank.end() ? 0 : without_repeat(found->second));
      if (pass < kPassLeast) break;
      distinct.insert(found->second.begin(), found->second.end());
      drawn = std::max(drawn, found->second.size());
    }
    if (pass < kPassLeast) continue;  // it draws at random, or all samples are alike
    std::map<std::string, size_t> holders;
    size_t shared = 0;
    for (const auto& rank : all) {
      const auto& rows = rank.at(model);
      for (const auto& row : std::set<std::string>(rows.begin(), rows.begin() + long(pass)))
        shared += ++holders[row] == 2 ? 1 : 0;
    }
    if (shared < kSharedLeast || 8 * shared < pass) continue;
    // Each rank took its part of a pass, and repeats samples in the next one.
    const auto together = pass * all.size();
    const bool is_split = drawn > pass && 8 * std::max(together, distinct.size()) <=
                                              9 * std::min(together, distinct.size());
    return {Finding{"",
                    "shared_inputs",
                    model,
                    "in the first " + counted(pass, "sample") + " that each rank gave to " + model +
                        ", before one came again, " + counted(shared, "sample") +
                        " are of several ranks, and no loader handed them out",
                    {is_split
                         ? "together the ranks take as many as there are, so that they miss others "
                           "in each pass. The cause: an order of each rank's own, of which it "
                           "takes its part: draw the order with one seed on all ranks"
                         : "each rank draws from all samples, or takes its part of an order of its "
                           "own: draw one order with one seed on all ranks, and split it"}},
            is_split};
  }
  return {};
}

}  // namespace lockstep::recorded
