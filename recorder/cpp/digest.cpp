#include "recorder/cpp/digest.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace lockstep {

namespace {

constexpr uint64_t kGolden = 0x9e3779b97f4a7c15;
constexpr size_t kRow = 256;  // words that are hashed together
constexpr size_t kRowBytes = kRow * sizeof(int64_t);
using Words = std::array<int64_t, kRow>;

constexpr uint64_t mixed(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

constexpr std::array<uint64_t, 2 * kRow> keys() {
  std::array<uint64_t, 2 * kRow> result{};
  for (size_t i = 0; i < result.size(); ++i) result[i] = mixed((i + 1) * kGolden) | 1;
  return result;
}

uint64_t hash_of(const Words& row) {
  static constexpr auto kKeys = keys();
  uint64_t sum = 0;
  for (size_t j = 0; j < kRow; ++j)
    sum += static_cast<uint64_t>(row[j]) * kKeys[j] +
           static_cast<uint64_t>(row[j] >> 32) * kKeys[kRow + j];
  return sum;
}

uint64_t digest_of_bytes(const char* bytes, size_t size) {
  uint64_t sum = 0;
  for (size_t number = 0; number * kRowBytes <= size; ++number) {
    Words row{};
    const auto begin = number * kRowBytes;
    if (begin < size) std::memcpy(row.data(), bytes + begin, std::min(kRowBytes, size - begin));
    sum += mixed(hash_of(row) + (number + 1) * kGolden);
  }
  return sum;
}

}  // namespace

TensorDigest digested(const at::Tensor& tensor) {
  if (!tensor.defined()) return {};
  const at::NoGradGuard no_grad;
  auto values = tensor.detach();
  if (values.layout() != at::kStrided) values = values.to_dense();
  values = values.cpu().contiguous();
  const bool has_norm = values.is_floating_point() || values.is_complex();
  const auto norm = at::linalg_vector_norm(has_norm ? values : values.to(at::kDouble));
  return {digest_of_bytes(static_cast<const char*>(values.const_data_ptr()), values.nbytes()),
          norm.to(at::kDouble).item<double>()};
}

}  // namespace lockstep
