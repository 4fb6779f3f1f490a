#include "ddp/communication_hook.h"
#include "ddp/errors.h"

#include <torch/torch.h>

namespace lockstep {

namespace {

// The part of `to` that `view` is of `from`.
at::Tensor same_part(const at::Tensor& view, const at::Tensor& from, const at::Tensor& to) {
  const at::Tensor real = view.is_complex() ? at::view_as_real(view) : view;
  const at::Tensor part =
      to.as_strided(real.sizes(), real.strides(),
                    real.storage_offset() - from.storage_offset() + to.storage_offset());
  const bool has_complex = to.scalar_type() == at::kFloat || to.scalar_type() == at::kDouble;
  return view.is_complex() && has_complex ? at::view_as_complex(part) : part;
}

}  // namespace

void GradBucket::set_buffer(at::Tensor buffer) {
  if (!buffer.defined() || buffer.dim() != 1 || !buffer.is_contiguous() ||
      buffer.numel() != buffer_.numel()) {
    throw UsageError("GradBucket::set_buffer: expected a contiguous 1-D tensor of " +
                     std::to_string(buffer_.numel()) + " elements");
  }
  for (at::Tensor& gradient : gradients_) gradient = same_part(gradient, buffer_, buffer);
  buffer_ = std::move(buffer);
}

}  // namespace lockstep
