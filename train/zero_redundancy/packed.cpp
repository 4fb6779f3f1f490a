#include "train/zero_redundancy/packed.h"

#include <torch/torch.h>

namespace lockstep {

namespace {

// A multiple of the size of every dtype's elements, or a row of bytes has no view of that dtype.
constexpr std::int64_t kAlignment = 16;

std::int64_t aligned(std::size_t bytes) {
  return (static_cast<std::int64_t>(bytes) + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

Packed::Packed(std::vector<at::Tensor> tensors) {
  std::int64_t total = 0;
  for (at::Tensor& each : tensors) {
    if (each.numel() == 0) continue;
    total += aligned(each.nbytes());
    tensors_.push_back(each.detach());
  }
  const at::Device device = tensors_.empty() ? at::Device(at::kCPU) : tensors_.front().device();
  bytes_ = at::empty({total}, at::TensorOptions().dtype(at::kByte).device(device));
  std::int64_t offset = 0;
  for (const at::Tensor& each : tensors_) {
    const auto size = static_cast<std::int64_t>(each.nbytes());
    places_.push_back(bytes_.narrow(0, offset, size).view(each.scalar_type()).view(each.sizes()));
    offset += aligned(each.nbytes());
  }
}

void Packed::write_tensors_into_bytes() const {
  bytes_.zero_();  // the gaps too
  for (std::size_t i = 0; i < tensors_.size(); ++i) places_[i].copy_(tensors_[i]);
}

void Packed::write_bytes_into_tensors() const {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < tensors_.size(); ++i) tensors_[i].copy_(places_[i]);
}

}  // namespace lockstep
