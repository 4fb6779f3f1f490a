#include "harness/invariants/habits/own_buffers.h"

#include "harness/base/text.h"

#include <algorithm>

namespace lockstep::recorded {

std::optional<Finding> own_buffers(const RecordedRun& run) {
  auto rows = rows_of(run, role::kOwnBuffers);
  std::erase_if(rows, [](const Row& row) { return !row.is_whole() || row.at.step == 0; });
  const bool always = std::all_of(
      rows.begin(), rows.end(), [](const Row& row) { return difference_in(row, "").has_value(); });
  if (rows.empty() || !always) return {};
  auto finding = difference_in(rows.front(), "buffers of layers that no wrapper keeps the same");
  if (finding->pattern == "other_shape") return {};
  finding->pattern = "own_buffers";
  finding->diagnosis +=
      (rows.size() > 1
           ? ", in each of " + counted(rows.size(), "pass", "passes") + " over data as it begins"
           : ", as a pass over data begins or the program ends") +
      ": each rank has them of its own batches, so that ranks that evaluate with them, or save "
      "them, have different models";
  finding->details.push_back(
      "usual of BatchNorm without DistributedDataParallel or with broadcast_buffers=False, and of "
      "a centre or a queue in a loss: all_reduce what they are made of, use SyncBatchNorm, or "
      "broadcast them before an evaluation");
  return finding;
}

}  // namespace lockstep::recorded
