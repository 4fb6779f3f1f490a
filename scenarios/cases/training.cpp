#include "scenarios/cases/training.h"

#include <numeric>

namespace lockstep::scenarios {

Part part_of_batch(const Training& c, int rank) {
  std::vector<int64_t> shares(static_cast<size_t>(c.world.size), 1);
  if (!c.shares.empty())
    for (size_t r = 0; r < shares.size(); ++r) shares[r] = c.shares[r % c.shares.size()];
  auto total = std::accumulate(shares.begin(), shares.end(), int64_t{0});
  if (total == 0) {
    shares.assign(shares.size(), 1);
    total = c.world.size;
  }
  const auto here = shares.begin() + rank;
  const auto before = std::accumulate(shares.begin(), here, int64_t{0});
  return {batch_size(c) * before / total, batch_size(c) * (before + *here) / total};
}

std::vector<int> group_of(const Training& c, int rank) {
  const int groups = c.world.size % c.groups == 0 ? c.groups : 1;
  const int size = c.world.size / groups;
  std::vector<int> ranks(static_cast<size_t>(size));
  std::iota(ranks.begin(), ranks.end(), rank / size * size);
  return ranks;
}

Training case_of_group(const Training& c, const std::vector<int>& group) {
  Training out = c;
  out.world = {.size = static_cast<int>(group.size())};
  out.groups = 1;
  out.seed = c.seed + static_cast<uint64_t>(group.front());
  return out;
}

}  // namespace lockstep::scenarios

namespace lockstep {

template Scenario scenario<scenarios::Training>(Spec<scenarios::Training> spec);

}  // namespace lockstep
