#include "scenarios/programs/buffers.h"

#include "scenarios/cases/tensors.h"

#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <bit>

namespace lockstep::scenarios::programs {

namespace {

constexpr int64_t kElements = 2;

// As bits of float32: 0, -0, infinity, a number that is none, a subnormal number, 1.
constexpr std::array<uint32_t, 6> kSpecial{0x00000000, 0x80000000, 0x7f800000,
                                           0x7fc00001, 0x00000001, 0x3f800000};

at::Tensor special(int64_t count) {
  const auto bits = kSpecial[static_cast<size_t>(count) % kSpecial.size()];
  return torch::full({kElements}, std::bit_cast<int32_t>(bits), at::kInt).view(at::kFloat);
}

int64_t count_of_special(const at::Tensor& buffer) {
  const auto bits = static_cast<uint32_t>(buffer.cpu().view(at::kInt)[0].item<int32_t>());
  return std::find(kSpecial.begin(), kSpecial.end(), bits) - kSpecial.begin();
}

}  // namespace

at::Tensor buffer_of(BufferKind kind, int64_t count) {
  if (kind == BufferKind::special) return special(count);
  return torch::full({kElements}, kind == BufferKind::bool_ ? count % 2 : count, at::kLong)
      .to(scalar_type(value_of_word<Dtype>(word_of(kind)).value()));
}

void add_to_buffer(at::Tensor& buffer, BufferKind kind, int64_t added) {
  if (kind == BufferKind::special) {
    buffer.copy_(special(count_of_special(buffer) + added));
  } else if (kind == BufferKind::bool_) {
    if (added % 2 == 1) buffer.logical_not_();
  } else {
    buffer.add_(added);
  }
}

at::Tensor recorded_buffer(BufferKind kind, const at::Tensor& buffer) {
  const auto plain = buffer.detach().cpu();
  if (kind == BufferKind::special) return plain.view(at::kInt);
  return plain.is_complex() ? at::view_as_real(plain) : plain;
}

std::optional<Diagnosis> other_bits_of_equal_numbers(const Difference& is) {
  constexpr auto kSign = static_cast<int32_t>(0x80000000);
  for (size_t rank = 0; rank < is.expected.size(); ++rank) {
    const auto seen = as_integers(is.row.by_rank[rank]), right = as_integers(is.expected[rank]);
    if (seen.size() != right.size()) return {};
    for (size_t i = 0; i < seen.size(); ++i)
      if (seen[i] != right[i] &&
          ((seen[i] != 0 && seen[i] != kSign) || seen[i] + right[i] != kSign))
        return {};
  }
  return Diagnosis{"other_bits_of_equal_numbers",
                   "zero with the other sign: what is compared here are numbers, and not bits"};
}

}  // namespace lockstep::scenarios::programs
