#include "ddp/bucket.h"

#include <ATen/ScalarOps.h>
#include <torch/torch.h>

namespace lockstep {

namespace {

at::Tensor place_in(const at::Tensor& flat, std::int64_t offset, const at::Tensor& parameter) {
  if (parameter.is_non_overlapping_and_dense()) {
    return flat.as_strided(parameter.sizes(), parameter.strides(), offset);
  }
  return flat.narrow(0, offset, parameter.numel()).view(parameter.sizes());
}

}  // namespace

Bucket::Bucket(const PlannedBucket& plan, const std::vector<at::Tensor>& parameters)
    : indices_(plan.gradients) {
  const at::NoGradGuard no_grad;
  std::int64_t element_count = 0;
  for (const std::size_t index : indices_) element_count += parameters[index].numel();
  flat_ = at::zeros({element_count + 1}, parameters[indices_.front()].options());
  std::int64_t offset = 0;
  for (const std::size_t index : indices_) {
    places_.push_back(place_in(flat_, offset, parameters[index]));
    offset += parameters[index].numel();
  }
  flag_ = flat_.narrow(0, offset, 1);
}

void Bucket::pack(std::size_t slot, const at::Tensor& gradient, double scale) {
  const at::NoGradGuard no_grad;  // create_graph leaves grad mode on in hooks
  at::Tensor& place = places_.at(slot);
  if (gradient.defined()) {
    at::mul_out(place, gradient, at::native::wrapped_scalar_tensor(scale));
  } else {
    place.zero_();
  }
}

void Bucket::unpack(const std::vector<at::Tensor>& parameters) const {
  const at::NoGradGuard no_grad;
  for (std::size_t slot = 0; slot < indices_.size(); ++slot) {
    const at::Tensor& parameter = parameters[indices_[slot]];
    at::Tensor& gradient = parameter.mutable_grad();
    if (!gradient.defined()) gradient = at::empty_like(parameter, at::MemoryFormat::Preserve);
    gradient.copy_(places_[slot]);
  }
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
