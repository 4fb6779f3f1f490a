#include "harness/invariants/own/updates_by_hand.h"

#include <algorithm>

namespace lockstep::recorded {

bool updates_by_itself(const RecordedRun& run) {
  const auto all = rows_of(run, "parameters");
  return std::any_of(all.begin(), all.end(), [](auto& is) { return is.at.phase == "forward"; });
}

std::string why_not_by_hand(const RecordedRun& run) {
  for (const auto& rank : run.ranks)
    for (const auto& record : rank.records)
      if (const auto* fact = std::get_if<Fact>(&record.what);
          fact && fact->name == "changed by hand")
        return fact->text("why") == "no parameters"
                   ? "the program changes tensors itself that are no parameters of a module: make "
                     "them nn.Parameter, and they are compared"
                   : "the program changes parameters itself, and its backwards reach other ones "
                     "than the first did: which is which on another rank is not known";
  return "";
}

}  // namespace lockstep::recorded
