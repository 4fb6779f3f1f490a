#pragma once

#include "ddp/device.h"
#include "ddp/reducer/bucket_plan.h"

#include <ATen/core/Tensor.h>

#include <vector>

namespace lockstep {

// How gradients lie in a bucket and come back out of it.
struct BucketOptions {
  bool gradients_are_views = false;  // .grad of each parameter becomes its place in the bucket
  bool batched_copy = false;         // all are copied when the last is there, then divided at once
};

// One bucket's memory: a flat 1-D tensor of the gradients' dtype (complex numbers as pairs of real
// ones), in which each gradient has its place. It lies there in its parameter's own memory order
// (if that is dense), so packing and unpacking are plain copies; parameters' strides are therefore
// equal on all ranks. Places are no views as autograd knows them, so detach_() on a .grad that is
// one works. On a device every call is work for its current stream: Note [One stream rule].
//
// Everything is Local and does not block. Source: c10d's Reducer; docs/semantics.md 2.3 and 2.4.
class Bucket {
 public:
  // `parameters` is the whole list that the plan's indices refer to. Behind their gradients lies
  // one element more: Note [The flag in the last bucket].
  Bucket(const PlannedBucket& plan, const std::vector<at::Tensor>& parameters,
         BucketOptions options);

  // Takes the parameter's .grad (dense, of its dtype), which is divided by `world_size`: by a
  // multiplication with the rounded 1 / world_size while it is copied, or, where it lies here
  // already or copies are batched, by a true division. An undefined one is zeros. `slot` is the
  // position in the plan's list of gradients.
  void pack(std::size_t slot, at::Tensor parameter, int world_size);

  // Puts zeros in the place, and leaves .grad alone.
  void pack_zeros(std::size_t slot);

  // After the last pack: what batched copying left to be done.
  void complete(const std::vector<at::Tensor>& parameters, int world_size);

  // The place becomes the parameter's .grad, or its values do, with the strides that .grad has; an
  // undefined .grad is created with the parameter's. Throws UsageError where .grad should be the
  // place and was replaced since pack.
  void unpack(std::size_t slot, at::Tensor parameter) const;

  // Before pack, of a .grad that may have to stay as it is; and instead of unpack, when it does.
  void keep(std::size_t slot, const at::Tensor& parameter);
  void restore(std::size_t slot, at::Tensor parameter);
  // When the pass is over, however it went.
  void forget_kept() { kept_.assign(kept_.size(), at::Tensor()); }

  // Whether the parameter's .grad is its place here; and, before any pass uses this bucket, makes
  // it so, with the values it has.
  bool holds_gradient(std::size_t slot, const at::Tensor& parameter) const;
  void adopt(std::size_t slot, at::Tensor parameter);

  // The flag: 0 after lower_flag(), the number of ranks that raised it once the sum was taken.
  // Asking whether it is raised waits for the device.
  void lower_flag();
  void raise_flag();
  bool flag_is_raised() const;
  const at::Tensor& flag() const { return flag_; }

  // Before and after what is done here by several streams: the current one is the one to wait for.
  void enter() { order_.enter(flat_); }
  void settle() { order_.settle(); }

  // What travels.
  const at::Tensor& flat() const { return flat_; }
  const std::vector<std::size_t>& gradients() const { return indices_; }

 private:
  bool is_place(std::size_t slot, const at::Tensor& gradient) const;

  std::vector<std::size_t> indices_;
  BucketOptions options_;
  std::vector<at::Tensor> places_;    // in flat_, one for each index
  std::vector<at::Tensor> kept_;      // where places are .grad: what keep() was given
  std::vector<std::size_t> waiting_;  // slots that complete() copies
  at::Tensor flat_;
  at::Tensor values_;  // flat_ without its last element
  at::Tensor flag_;    // the last element of flat_
  StreamOrder order_;
};

}  // namespace lockstep
