// Reproducible values: a counter-based generator, so that a program in another language makes the
// same bits from the same case. docs/protocol.md has the formula and test vectors.
#pragma once

#include <cstdint>

namespace lockstep {

// The purpose of a value; the numbers are part of the format.
enum class Stream : uint64_t {
  parameter = 1,
  buffer = 2,
  input = 3,
  cotangent = 4,
  order = 5,
  schedule = 6
};

// Five coordinates and nothing else decide a value.
struct Counter {
  uint64_t seed = 0;
  Stream stream = Stream::input;
  uint64_t rank = 0;
  uint64_t step = 0;
  uint64_t index = 0;
};

// 64 uniform bits.
uint64_t bits_at(const Counter& at);

// A uniform whole number in [-most, most]; most below 2^31.
int64_t whole_at(const Counter& at, int64_t most);

// A uniform double in [-1, 1), a multiple of 2^-52.
double real_at(const Counter& at);

}  // namespace lockstep
