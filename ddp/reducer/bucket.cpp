#include "ddp/reducer/bucket.h"

#include "ddp/errors.h"

#include <ATen/Parallel.h>
#include <ATen/ScalarOps.h>
#include <torch/torch.h>

#include <cstring>

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

// Note [Small gradients]
// ATen's dispatch takes some microseconds a call, most of the time of a small gradient. Where an
// element-wise kernel would be one serial loop over two rows of memory anyway, we run the loop
// here, with the same one rounding per element. The write bumps the tensor's version, as ATen's
// does.
bool are_plain_rows(const at::Tensor& into, const at::Tensor& from) {
  constexpr c10::DispatchKeySet lazy(
      {c10::DispatchKey::Negative, c10::DispatchKey::Conjugate, c10::DispatchKey::ZeroTensor});
  const auto is_plain = [&](const at::Tensor& tensor) {
    return tensor.layout() == at::kStrided && tensor.is_cpu() && tensor.is_contiguous() &&
           !tensor.key_set().has_any(lazy);
  };
  return into.numel() < at::internal::GRAIN_SIZE && into.scalar_type() == from.scalar_type() &&
         into.sizes() == from.sizes() && is_plain(into) && is_plain(from);
}

void copy_row(const at::Tensor& into, const at::Tensor& from) {
  if (!are_plain_rows(into, from)) {
    into.copy_(from);
    return;
  }
  if (from.numel() == 0) return;
  std::memcpy(into.mutable_data_ptr(), from.const_data_ptr(), from.nbytes());
  into.unsafeGetTensorImpl()->bump_version();
}

template <class Number>
void multiply_row(const at::Tensor& into, const at::Tensor& from, Number factor) {
  const Number* const source = from.const_data_ptr<Number>();
  Number* const target = into.mutable_data_ptr<Number>();
  const std::int64_t count = from.numel();
  for (std::int64_t i = 0; i < count; ++i) target[i] = source[i] * factor;
  into.unsafeGetTensorImpl()->bump_version();
}

// The parts of complex numbers: multiplied as such, an infinite part would make the other one NaN.
at::Tensor numbers_of(const at::Tensor& tensor) {
  return tensor.is_complex() ? at::view_as_real(tensor.resolve_conj()) : tensor;
}

void copy_multiplied(const at::Tensor& place, const at::Tensor& gradient, double factor) {
  at::Tensor into = numbers_of(place);
  const at::Tensor from = numbers_of(gradient);
  const auto dtype = into.scalar_type();
  const bool is_plain = are_plain_rows(into, from);
  if (is_plain && dtype == at::kFloat) {
    multiply_row(into, from, static_cast<float>(factor));
  } else if (is_plain && dtype == at::kDouble) {
    multiply_row(into, from, factor);
  } else {
    at::mul_out(into, from, at::native::wrapped_scalar_tensor(factor));
  }
}

}  // namespace

Bucket::Bucket(const PlannedBucket& plan, const std::vector<at::Tensor>& parameters,
               BucketOptions options)
    : indices_(plan.gradients),
      options_(options),
      flag_form_(c10::toRealValueType(parameters[indices_.front()].scalar_type()),
                 options.world_size),
      order_(parameters[indices_.front()].device()) {
  // Below autograd: places are tensors of their own that share memory.
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  std::int64_t element_count = 0;
  for (const std::size_t index : indices_) element_count += elements_in(parameters[index]);
  const at::Tensor& first = parameters[indices_.front()];
  const auto dtype = c10::toRealValueType(first.scalar_type());
  const std::int64_t flag_count = flag_form_.element_count();
  flat_ = at::zeros({element_count + flag_count}, first.options().dtype(dtype));
  std::int64_t offset = 0;
  for (const std::size_t index : indices_) {
    places_.push_back(place_in(flat_, offset, parameters[index]));
    offset += elements_in(parameters[index]);
  }
  values_ = flat_.narrow(0, 0, element_count);
  flag_ = flat_.narrow(0, element_count, flag_count);
  enter();
}

bool Bucket::is_place(std::size_t slot, const at::Tensor& gradient) const {
  const at::Tensor& place = places_[slot];
  return gradient.defined() && gradient.is_alias_of(place) &&
         gradient.const_data_ptr() == place.const_data_ptr() && gradient.sizes() == place.sizes() &&
         gradient.strides() == place.strides();
}

bool Bucket::pack(std::size_t slot, at::Tensor parameter, int divisor) {
  const at::NoGradGuard no_grad;  // create_graph leaves grad mode on in hooks
  at::Tensor& gradient = parameter.mutable_grad();
  at::Tensor& place = places_.at(slot);
  enter();
  if (!gradient.defined()) {
    place.zero_();
  } else if (options_.batched_copy) {
    return false;
  } else if (is_place(slot, gradient)) {
    if (divisor != 1) numbers_of(place).div_(divisor);
  } else {
    copy_multiplied(place, gradient, 1.0 / divisor);
    if (options_.gradients_are_views) gradient = place;
  }
  return true;
}

void Bucket::pack_zeros(std::size_t slot) {
  enter();
  places_.at(slot).zero_();
}

void Bucket::copy_all(const std::vector<std::size_t>& slots,
                      const std::vector<at::Tensor>& parameters, int divisor) {
  const at::NoGradGuard no_grad;
  settle();
  enter();
  for (const std::size_t slot : slots) {
    at::Tensor parameter = parameters[indices_[slot]];
    at::Tensor& gradient = parameter.mutable_grad();
    if (is_place(slot, gradient)) continue;
    copy_row(places_[slot], gradient);
    if (options_.gradients_are_views) gradient = places_[slot];
  }
  if (divisor != 1) values_.div_(divisor);
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
  copy_row(gradient, places_[slot]);
}

at::Tensor Bucket::value_to_keep(std::size_t slot, const at::Tensor& parameter) const {
  const at::Tensor& gradient = parameter.grad();
  if (!options_.gradients_are_views || !gradient.defined()) return {};
  return is_place(slot, gradient) ? gradient.clone() : gradient;
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

void Bucket::write_flag(const PassFlag& flag) {
  enter();
  flag_form_.write(flag_, flag);
}

}  // namespace lockstep
