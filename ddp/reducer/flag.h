#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <cstdint>

namespace lockstep {

// Note [Numbers in a sum]
// The flag is summed over the ranks with a bucket's gradients, in their dtype, and every rank must
// draw the same conclusion from the sum. So a rank does not add its number, but a one in the slot
// of its number, counted cyclically: the sum counts the ranks of each slot, and all have one number
// if a single slot is not empty. A rank that failed adds a one to the next slot too. A count takes
// as many bits as the world size; an element holds as many counts as are exact in its dtype, in any
// order of additions. Where not even two are, each slot has an element of its own, and only
// whether a count is zero matters, which no rounding changes. In worlds of up to seven ranks one
// element of float32 holds all slots.

// One rank's message about its backward pass: whether it failed, and the number of its step, which
// is how many synchronised forwards it had begun. Ranks whose steps differ by a multiple of kSlots
// are not distinguished.
struct PassFlag {
  bool is_raised = false;
  std::int64_t number = 0;
};

// How the flag lies in the last elements of a bucket. Everything is Local.
class FlagForm {
 public:
  static constexpr int kSlots = 8;

  // `dtype` is real and floating.
  FlagForm(at::ScalarType dtype, int world_size);

  std::int64_t element_count() const {
    return (kSlots + slots_in_element_ - 1) / slots_in_element_;
  }

  // `row` has that many elements of the dtype.
  void write(const at::Tensor& row, const PassFlag& flag) const;

  // True if no rank has failed and all have one number, from the sum. Waits for the row's device.
  bool is_well(const at::Tensor& sum) const;

 private:
  int count_bits_;
  int slots_in_element_;
};

}  // namespace lockstep
