#include "ddp/reducer/flag.h"

#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

namespace lockstep {

namespace {

// Every whole number of so many bits is exact.
int exact_bits(at::ScalarType dtype) {
  switch (dtype) {
    case at::kDouble:
      return 53;
    case at::kFloat:
      return 24;
    case at::kHalf:
      return 11;
    default:
      return 8;  // bfloat16
  }
}

}  // namespace

FlagForm::FlagForm(at::ScalarType dtype, int world_size)
    : count_bits_(static_cast<int>(std::bit_width(static_cast<unsigned>(world_size)))),
      slots_in_element_(std::clamp(exact_bits(dtype) / count_bits_, 1, kSlots)) {}

void FlagForm::write(const at::Tensor& row, const PassFlag& flag) const {
  const at::NoGradGuard no_grad;
  std::array<double, kSlots> values{};
  const auto add_one = [&](int slot) {
    values.at(static_cast<std::size_t>(slot / slots_in_element_)) +=
        std::ldexp(1.0, count_bits_ * (slot % slots_in_element_));
  };
  const int slot = static_cast<int>(flag.number % kSlots);
  add_one(slot);
  if (flag.is_raised) add_one((slot + 1) % kSlots);
  // One by one: the host would wait for a copy to a device.
  for (std::int64_t i = 0; i < element_count(); ++i)
    row.narrow(0, i, 1).fill_(values.at(static_cast<std::size_t>(i)));
}

bool FlagForm::is_well(const at::Tensor& sum) const {
  const at::Tensor values = sum.to(at::kCPU, at::kDouble);
  int slots_in_use = 0;
  for (int slot = 0; slot < kSlots; ++slot) {
    const double value = values.const_data_ptr<double>()[slot / slots_in_element_];
    if (slots_in_element_ == 1) {
      slots_in_use += value != 0 ? 1 : 0;
      continue;
    }
    const auto counts = static_cast<std::uint64_t>(value) >>
                        static_cast<unsigned>(count_bits_ * (slot % slots_in_element_));
    slots_in_use += counts % (std::uint64_t{1} << static_cast<unsigned>(count_bits_)) != 0 ? 1 : 0;
  }
  return slots_in_use == 1;
}

}  // namespace lockstep
