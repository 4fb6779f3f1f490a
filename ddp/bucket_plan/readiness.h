#pragma once

#include "ddp/bucket_plan.h"

#include <cstddef>
#include <optional>
#include <vector>

namespace lockstep {

// Counts which gradients of one backward pass have arrived; pure, without torch. At each moment
// every gradient is either waited for or ready.
//
// Local; does not block. Source: the pending counts of c10d's Reducer, docs/semantics.md 2.3.
class Readiness {
 public:
  // Waits for every gradient of `plan`, in which each index 0 .. count-1 occurs once.
  explicit Readiness(const BucketPlan& plan);

  // The gradient has arrived. Returns its bucket if that is now complete. Throws std::out_of_range
  // for an index outside the plan and std::logic_error for one that is ready.
  std::optional<std::size_t> mark_ready(std::size_t gradient_index);

  bool is_ready(std::size_t gradient_index) const { return ready_.at(gradient_index); }
  bool all_ready() const { return missing_count_ == 0; }

  // The indices that have not arrived, ascending.
  std::vector<std::size_t> missing() const;

 private:
  std::vector<std::size_t> bucket_of_;      // by gradient
  std::vector<std::size_t> pending_count_;  // by bucket
  std::vector<bool> ready_;                 // by gradient
  std::size_t missing_count_ = 0;
};

}  // namespace lockstep
