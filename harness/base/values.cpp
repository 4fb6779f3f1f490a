#include "harness/base/values.h"

#include <initializer_list>

namespace lockstep {

namespace {

// SplitMix64's finaliser.
uint64_t mixed(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

}  // namespace

uint64_t bits_at(const Counter& at) {
  uint64_t state = 0;
  for (const uint64_t word :
       {at.seed, static_cast<uint64_t>(at.stream), at.rank, at.step, at.index})
    state = mixed(state + 0x9e3779b97f4a7c15u + word);
  return state;
}

int64_t whole_at(const Counter& at, int64_t most) {
  const auto choices = static_cast<uint64_t>(2 * most + 1);
  return static_cast<int64_t>((bits_at(at) >> 32) * choices >> 32) - most;
}

double real_at(const Counter& at) {
  return static_cast<double>(bits_at(at) >> 11) * 0x1p-52 - 1.0;
}

}  // namespace lockstep
