#include "train/zero_redundancy/partition.h"

#include <algorithm>
#include <numeric>

namespace lockstep {

std::vector<int> give_out(const std::vector<std::size_t>& bytes_of_parameters,
                          std::vector<std::size_t>& bytes_by_rank) {
  std::vector<std::size_t> order(bytes_of_parameters.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater(),
                           [&](std::size_t i) { return bytes_of_parameters[i]; });
  std::vector<int> owners(bytes_of_parameters.size());
  for (const std::size_t i : order) {
    const auto least = std::ranges::min_element(bytes_by_rank);
    owners[i] = static_cast<int>(least - bytes_by_rank.begin());
    *least += bytes_of_parameters[i];
  }
  return owners;
}

}  // namespace lockstep
