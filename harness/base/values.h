// Reproducible values: a counter-based generator, so that a program in another language makes the
// same bits from the same case. docs/protocol.md has the formula and test vectors.
#pragma once

#include <cstdint>
#include <initializer_list>

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

// 64 uniform bits: SplitMix64's finaliser over the coordinates in turn. Inline, so that a loop over
// the last of them mixes the others once.
inline uint64_t bits_at(const Counter& at) {
  uint64_t state = 0;
  for (const uint64_t word :
       {at.seed, static_cast<uint64_t>(at.stream), at.rank, at.step, at.index}) {
    state += 0x9e3779b97f4a7c15u + word;
    state = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9u;
    state = (state ^ (state >> 27)) * 0x94d049bb133111ebu;
    state ^= state >> 31;
  }
  return state;
}

// A uniform whole number in [-most, most]; most below 2^31.
inline int64_t whole_at(const Counter& at, int64_t most) {
  const auto choices = static_cast<uint64_t>(2 * most + 1);
  return static_cast<int64_t>((bits_at(at) >> 32) * choices >> 32) - most;
}

// A uniform double in [-1, 1), a multiple of 2^-52.
inline double real_at(const Counter& at) {
  return static_cast<double>(bits_at(at) >> 11) * 0x1p-52 - 1.0;
}

}  // namespace lockstep
