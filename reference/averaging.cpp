#include "reference/averaging.h"

#include <torch/torch.h>

#include <cmath>

namespace lockstep::reference {

int averaging_group_size(const AveragingRule& rule, int64_t step) {
  if (step < rule.warmup_steps) return 1;
  const int64_t counted = rule.warmup_is_subtracted ? step - rule.warmup_steps : step;
  int size = 1;
  for (const auto& level : rule.levels)
    if (counted % level.period == 0) size = level.size;
  return size;
}

std::vector<at::Tensor> averaged_in_groups(const std::vector<at::Tensor>& by_rank, int size) {
  const auto whole = static_cast<size_t>(size);
  std::vector<at::Tensor> out;
  for (size_t first = 0; first < by_rank.size(); first += whole) {
    at::Tensor sum = by_rank[first].clone();
    for (size_t rank = first + 1; rank < first + whole; ++rank) sum += by_rank[rank];
    for (size_t rank = first; rank < first + whole; ++rank) out.push_back(sum / size);
  }
  return out;
}

bool averages_without_rounding(const std::vector<at::Tensor>& by_rank, int size, int bits) {
  at::Tensor sum_of_sizes = at::zeros_like(by_rank.front());
  for (const auto& each : by_rank) {
    const auto quotient = each / size;
    if (!quotient.equal(quotient.round())) return false;
    sum_of_sizes += quotient.abs();
  }
  return (sum_of_sizes <= std::ldexp(1.0, bits)).all().item<bool>();
}

std::vector<std::vector<int>> owners(const std::vector<std::vector<int64_t>>& bytes_by_group,
                                     int world_size) {
  std::vector<int64_t> given(static_cast<size_t>(world_size));
  std::vector<std::vector<int>> out;
  for (const auto& bytes : bytes_by_group) {
    std::vector<int> owner(bytes.size(), -1);
    for (size_t count = 0; count < bytes.size(); ++count) {
      size_t largest = bytes.size();
      for (size_t i = 0; i < bytes.size(); ++i)
        if (owner[i] < 0 && (largest == bytes.size() || bytes[i] > bytes[largest])) largest = i;
      size_t rank = 0;
      for (size_t other = 1; other < given.size(); ++other)
        if (given[other] < given[rank]) rank = other;
      given[rank] += bytes[largest];
      owner[largest] = static_cast<int>(rank);
    }
    out.push_back(owner);
  }
  return out;
}

}  // namespace lockstep::reference
