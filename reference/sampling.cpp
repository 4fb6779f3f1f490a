#include "reference/sampling.h"

#include <numeric>
#include <random>

namespace lockstep::reference {

std::vector<int64_t> permutation(int64_t length, uint64_t seed) {
  std::vector<int64_t> order(static_cast<size_t>(length));
  std::iota(order.begin(), order.end(), 0);
  std::mt19937 twister(static_cast<uint32_t>(seed));
  for (size_t i = 0; i + 1 < order.size(); ++i) {
    const size_t other = i + twister() % (order.size() - i);
    std::swap(order[i], order[other]);
  }
  return order;
}

std::vector<int64_t> permutation_by_place(int64_t length, uint64_t seed) {
  constexpr int kRounds = 8;
  uint64_t values = 1;  // of a half
  while (values * values < static_cast<uint64_t>(length)) values *= 2;
  const auto scrambled = [](uint64_t x) {
    x = (x ^ (x / (1ULL << 30))) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x / (1ULL << 27))) * 0x94d049bb133111ebULL;
    return x ^ (x / (1ULL << 31));
  };
  const auto pass = [&](uint64_t place) {
    uint64_t high = place / values, low = place % values;
    for (uint64_t round = 1; round <= kRounds; ++round) {
      const uint64_t key = scrambled(seed + round * 0x9e3779b97f4a7c15ULL);
      const uint64_t next = high ^ (scrambled(low + key) % values);
      high = low;
      low = next;
    }
    return high * values + low;
  };
  std::vector<int64_t> order;
  for (int64_t place = 0; place < length; ++place) {
    auto index = pass(static_cast<uint64_t>(place));
    while (index >= static_cast<uint64_t>(length)) index = pass(index);
    order.push_back(static_cast<int64_t>(index));
  }
  return order;
}

std::vector<int64_t> global_order(const Epoch& epoch) {
  std::vector<int64_t> order;
  if (epoch.shuffle) {
    const auto seed = static_cast<uint64_t>(epoch.seed + epoch.epoch);
    order = epoch.constant_memory ? permutation_by_place(epoch.length, seed)
                                  : permutation(epoch.length, seed);
  } else {
    order.resize(static_cast<size_t>(epoch.length));
    std::iota(order.begin(), order.end(), 0);
  }
  const auto world = static_cast<size_t>(epoch.world_size);
  const size_t length = order.size();
  const size_t kept = epoch.drop_last ? length / world * world
                      : epoch.pad     ? (length + world - 1) / world * world
                                      : length;
  order.resize(kept);
  for (size_t i = length; i < kept; ++i) order[i] = order[i - length];
  return order;
}

std::vector<int64_t> rank_order(const Epoch& epoch, int rank) {
  const auto all = global_order(epoch);
  std::vector<int64_t> mine;
  for (auto i = static_cast<size_t>(rank); i < all.size();
       i += static_cast<size_t>(epoch.world_size))
    mine.push_back(all[i]);
  return mine;
}

}  // namespace lockstep::reference
