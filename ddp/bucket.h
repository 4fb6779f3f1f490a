#pragma once

#include "ddp/bucket_plan.h"

#include <ATen/core/Tensor.h>

#include <vector>

namespace lockstep {

// One bucket's memory: a flat 1-D tensor of the gradients' dtype, in which each gradient has its
// place. A gradient lies there in its parameter's own memory order (if that is dense), so packing
// and unpacking are plain copies; parameters' strides are therefore equal on all ranks.
//
// A bucket never holds a gradient itself, only copies. Everything is Local and does not block.
class Bucket {
 public:
  // `parameters` is the whole list that the plan's indices refer to. Behind their gradients lies
  // one element more: Note [The flag in the last bucket].
  Bucket(const PlannedBucket& plan, const std::vector<at::Tensor>& parameters);

  // Writes gradient * scale into a place; `scale` is rounded to the arithmetic of the dtype first,
  // and an undefined gradient is zeros. `slot` is the position in the plan's list of gradients.
  void pack(std::size_t slot, const at::Tensor& gradient, double scale);

  // Writes every place back into its parameter's .grad, keeping the strides that it has; an
  // undefined .grad is created with the parameter's.
  void unpack(const std::vector<at::Tensor>& parameters) const;

  // The flag: 0 after lower_flag(), at least 1 if any rank raised it and the sum was taken.
  void lower_flag();
  void raise_flag();
  bool flag_is_raised() const;

  // What travels.
  const at::Tensor& flat() const { return flat_; }

 private:
  std::vector<std::size_t> indices_;
  std::vector<at::Tensor> places_;  // views of flat_, one for each index
  at::Tensor flat_;
  at::Tensor flag_;  // the last element of flat_
};

}  // namespace lockstep
