#pragma once

#include "ddp/bucket_plan.h"
#include "ddp/comm/streams.h"
#include "ddp/reducer/flag.h"

#include <ATen/core/Tensor.h>

#include <vector>

namespace lockstep {

// How gradients lie in a bucket and come back out of it.
struct BucketOptions {
  bool gradients_are_views = false;  // .grad of each parameter becomes its place in the bucket
  bool batched_copy = false;  // all are copied when the last has arrived, then divided at once
  int world_size = 1;         // over how many ranks buckets are summed
};

// One bucket's memory: a flat 1-D tensor of the gradients' dtype (complex numbers as pairs of real
// ones), in which each gradient has its place. A gradient lies there in its parameter's own memory
// order (if that is dense), so packing and unpacking are plain copies, and parameters' strides must
// be equal on all ranks. Autograd does not treat places as views, so detach_() works on a .grad
// that is a place. On a device every call enqueues work on the current stream: Note [One stream
// rule].
//
// Everything is Local and does not block. Source: c10d's Reducer; docs/semantics.md 2.3 and 2.4.
class Bucket {
 public:
  // `parameters` is the whole list that the plan's indices refer to. The flag follows their
  // gradients: Note [The flag in the last bucket].
  Bucket(const PlannedBucket& plan, const std::vector<at::Tensor>& parameters,
         BucketOptions options);

  // Packs the parameter's .grad (dense, of its dtype) divided by `divisor`: multiplied by the
  // rounded 1 / divisor while it is copied, or, where it is already a place or copies are batched,
  // by a true division. An undefined .grad is packed as zeros. `slot` is the position in the plan's
  // list of gradients. Returns false where batching leaves the copy to copy_all().
  bool pack(std::size_t slot, at::Tensor parameter, int divisor);

  // Writes zeros into the place; .grad does not change.
  void pack_zeros(std::size_t slot);

  // Called after the last pack where copies are batched: copies the gradients of `slots`, for which
  // pack() returned false, and divides the whole bucket.
  void copy_all(const std::vector<std::size_t>& slots, const std::vector<at::Tensor>& parameters,
                int divisor);

  // Makes the place the parameter's .grad, or copies its values there, with the strides that .grad
  // has; an undefined .grad is created with the parameter's strides. Throws UsageError where .grad
  // should be the place and was replaced since pack.
  void unpack(std::size_t slot, at::Tensor parameter) const;

  // Called before pack for a .grad that may have to keep its value: what to make .grad again
  // instead of unpack, or undefined where pack leaves .grad as it is.
  at::Tensor value_to_keep(std::size_t slot, const at::Tensor& parameter) const;

  // True if the parameter's .grad is its place here. adopt() makes it so with its current values,
  // before any pass uses this bucket.
  bool holds_gradient(std::size_t slot, const at::Tensor& parameter) const;
  void adopt(std::size_t slot, at::Tensor parameter);

  // The flag, written before the sum and read behind it, for which the host waits for the device.
  void write_flag(const PassFlag& flag);
  bool flag_is_well() const { return flag_form_.is_well(flag_); }
  const at::Tensor& flag() const { return flag_; }

  // Called before and after work of several streams on this bucket; afterwards the current stream
  // has waited for all of them.
  void enter() { order_.enter(flat_); }
  void settle() { order_.settle(); }

  // The same without the flag, and the gradients' places in it, for a communication hook.
  const at::Tensor& values() const { return values_; }
  const std::vector<at::Tensor>& places() const { return places_; }

  // The tensor that is summed.
  const at::Tensor& flat() const { return flat_; }
  const std::vector<std::size_t>& gradients() const { return indices_; }

 private:
  bool is_place(std::size_t slot, const at::Tensor& gradient) const;

  std::vector<std::size_t> indices_;
  BucketOptions options_;
  FlagForm flag_form_;
  std::vector<at::Tensor> places_;  // in flat_, one for each index
  at::Tensor flat_;
  at::Tensor values_;  // flat_ without the flag
  at::Tensor flag_;    // the last elements of flat_
  StreamOrder order_;
};

}  // namespace lockstep
