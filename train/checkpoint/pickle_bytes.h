#pragma once

#include "train/checkpoint/pickle_item.h"

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace lockstep {

// The bytes of a pickle, taken one operand after the other. Throws std::runtime_error where they
// end before.
class PickleBytes {
 public:
  explicit PickleBytes(std::string_view bytes) : bytes_(bytes) {}

  std::string_view take(std::size_t size) {
    if (size > bytes_.size() - at_) refuse_pickle("its end is missing");
    const std::string_view taken = bytes_.substr(at_, size);
    at_ += size;
    return taken;
  }

  // Little-endian, as the machines are for which LibTorch is built.
  template <class Number>
  Number take_number() {
    Number number{};
    std::memcpy(&number, take(sizeof number).data(), sizeof number);
    return number;
  }

  std::string take_line() {
    const std::size_t end = bytes_.find('\n', at_);
    if (end == std::string_view::npos) refuse_pickle("its end is missing");
    std::string line(take(end - at_));
    take(1);
    return line;
  }

  double take_double() {
    std::uint64_t number = 0;
    for (const char byte : take(8)) number = number << 8 | static_cast<unsigned char>(byte);
    return std::bit_cast<double>(number);
  }

  std::int64_t take_long() {
    const std::string_view digits = take(take_number<std::uint8_t>());
    if (digits.size() > 8) refuse_pickle("a whole number of more than 64 bits is in it");
    std::uint64_t number = !digits.empty() && digits.back() < 0 ? ~std::uint64_t{0} : 0;
    std::memcpy(&number, digits.data(), digits.size());
    return std::bit_cast<std::int64_t>(number);
  }

 private:
  const std::string_view bytes_;
  std::size_t at_ = 0;
};

}  // namespace lockstep
