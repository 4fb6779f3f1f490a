#include "recorder/cpp/digest.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <cstring>

namespace lockstep {

namespace {

// Of bytes as they lie in memory: four sums, since one would wait for its own last addition.
uint64_t digest_of_bytes(const char* bytes, size_t size) {
  constexpr uint64_t kGolden = 0x9e3779b97f4a7c15;
  const auto mixed = [](uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
  };
  const auto word = [&](size_t number) {
    uint64_t is = 0;
    std::memcpy(&is, bytes + 8 * number, std::min<size_t>(8, size - 8 * number));
    return mixed(is + (number + 1) * kGolden);
  };
  const size_t whole = size / 8;
  uint64_t sums[4] = {};
  size_t at = 0;
  for (; at + 4 <= whole; at += 4)
    for (size_t part = 0; part < 4; ++part) {
      uint64_t is;
      std::memcpy(&is, bytes + 8 * (at + part), sizeof(is));
      sums[part] += mixed(is + (at + part + 1) * kGolden);
    }
  for (; 8 * at < size; ++at) sums[0] += word(at);
  return sums[0] + sums[1] + sums[2] + sums[3];
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
