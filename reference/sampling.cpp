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

std::vector<int64_t> global_order(const Epoch& epoch) {
  std::vector<int64_t> order;
  if (epoch.shuffle) {
    order = permutation(epoch.length, static_cast<uint64_t>(epoch.seed + epoch.epoch));
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
