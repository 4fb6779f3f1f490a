#include "ddp/bucket.h"

#include "ddp/errors.h"

#include <ATen/ScalarOps.h>
#include <torch/torch.h>

namespace lockstep {

namespace {

std::int64_t elements_in(const at::Tensor& parameter) {
  return parameter.is_complex() ? 2 * parameter.numel() : parameter.numel();
}

at::Tensor place_in(const at::Tensor& flat, std::int64_t offset, const at::Tensor& parameter) {
  at::Tensor row = flat.narrow(0, offset, elements_in(parameter));
  if (parameter.is_complex()) row = at::view_as_complex(row.view({parameter.numel(), 2}));
  if (!parameter.is_non_overlapping_and_dense()) return row.view(parameter.sizes());
  return row.as_strided(parameter.sizes(), parameter.strides(), row.storage_offset());
}

}  // namespace

Bucket::Bucket(const PlannedBucket& plan, const std::vector<at::Tensor>& parameters,
               BucketOptions options)
    : indices_(plan.gradients), options_(options), kept_(indices_.size()) {
  // Below autograd: places are tensors of their own that share memory.
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  std::int64_t element_count = 0;
  for (const std::size_t index : indices_) element_count += elements_in(parameters[index]);
  const at::Tensor& first = parameters[indices_.front()];
  const auto dtype = c10::toRealValueType(first.scalar_type());
  flat_ = at::zeros({element_count + 1}, first.options().dtype(dtype));
  std::int64_t offset = 0;
  for (const std::size_t index : indices_) {
    places_.push_back(place_in(flat_, offset, parameters[index]));
    offset += elements_in(parameters[index]);
  }
  values_ = flat_.narrow(0, 0, element_count);
  flag_ = flat_.narrow(0, element_count, 1);
}

bool Bucket::is_place(std::size_t slot, const at::Tensor& gradient) const {
  const at::Tensor& place = places_[slot];
  return gradient.defined() && gradient.is_alias_of(place) &&
         gradient.const_data_ptr() == place.const_data_ptr() && gradient.sizes() == place.sizes() &&
         gradient.strides() == place.strides();
}

void Bucket::pack(std::size_t slot, at::Tensor parameter, int world_size) {
  const at::NoGradGuard no_grad;  // create_graph leaves grad mode on in hooks
  at::Tensor& gradient = parameter.mutable_grad();
  at::Tensor& place = places_.at(slot);
  if (!gradient.defined()) {
    place.zero_();
  } else if (options_.batched_copy) {
    waiting_.push_back(slot);
  } else if (is_place(slot, gradient)) {
    place.div_(world_size);
  } else {
    at::mul_out(place, gradient, at::native::wrapped_scalar_tensor(1.0 / world_size));
    if (options_.gradients_are_views) gradient = place;
  }
}

void Bucket::pack_zeros(std::size_t slot) {
  places_.at(slot).zero_();
}

void Bucket::complete(const std::vector<at::Tensor>& parameters, int world_size) {
  if (!options_.batched_copy) return;
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> into, from;
  for (const std::size_t slot : waiting_) {
    at::Tensor parameter = parameters[indices_[slot]];
    at::Tensor& gradient = parameter.mutable_grad();
    if (is_place(slot, gradient)) continue;
    into.push_back(places_[slot]);
    from.push_back(gradient.detach());
    if (options_.gradients_are_views) gradient = places_[slot];
  }
  if (!into.empty()) at::_foreach_copy_(into, from);
  values_.div_(world_size);
  waiting_.clear();
}

void Bucket::unpack(std::size_t slot, at::Tensor parameter) const {
  const at::NoGradGuard no_grad;
  at::Tensor& gradient = parameter.mutable_grad();
  if (options_.gradients_are_views) {
    if (gradient.defined() && !is_place(slot, gradient)) {
      throw UsageError(
          "a gradient is not the view of its bucket that gradient_as_bucket_view made it: it was "
          "replaced during the backward pass, perhaps by another DistributedDataParallel over the "
          "same parameters");
    }
    gradient = places_[slot];
    return;
  }
  if (!gradient.defined()) gradient = at::empty_like(parameter, at::MemoryFormat::Preserve);
  gradient.copy_(places_[slot]);
}

void Bucket::keep(std::size_t slot, const at::Tensor& parameter) {
  const at::Tensor& gradient = parameter.grad();
  if (!options_.gradients_are_views || !gradient.defined()) return;
  kept_[slot] = is_place(slot, gradient) ? gradient.clone() : gradient;
}

void Bucket::restore(std::size_t slot, at::Tensor parameter) {
  if (kept_[slot].defined()) parameter.mutable_grad() = std::move(kept_[slot]);
  kept_[slot] = at::Tensor();
}

bool Bucket::holds_gradient(std::size_t slot, const at::Tensor& parameter) const {
  return is_place(slot, parameter.grad());
}

void Bucket::adopt(std::size_t slot, at::Tensor parameter) {
  const at::NoGradGuard no_grad;
  at::Tensor& gradient = parameter.mutable_grad();
  places_[slot].copy_(gradient);
  gradient = places_[slot];
}

void Bucket::lower_flag() {
  flag_.fill_(0);
}

void Bucket::raise_flag() {
  flag_.fill_(1);
}

bool Bucket::flag_is_raised() const {
  return flag_.item<double>() != 0.0;
}

}  // namespace lockstep
