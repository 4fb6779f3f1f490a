#include "reference/replicas.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace lockstep::reference {

namespace {

int bits_of(at::ScalarType dtype) {
  switch (dtype) {
    case at::kDouble:
      return 53;
    case at::kHalf:
      return 11;
    case at::kBFloat16:
      return 8;
    default:
      return 24;
  }
}

at::Tensor finite_part(const at::Tensor& values) {
  return at::where(at::isfinite(values), values, at::zeros_like(values));
}

bool fits(const at::Tensor& values, at::ScalarType dtype) {
  const auto finite = finite_part(values);
  return at::equal(finite.to(dtype).to(at::kDouble), finite);
}

// Returns the finest bit of each element, as a power of two; 0 for zero. Without its last bit a
// number's pattern is that of the next smaller multiple of the bit before.
at::Tensor finest_bits(const at::Tensor& values) {
  constexpr int64_t kFraction = (int64_t{1} << 52) - 1;
  const auto sizes = values.abs().contiguous();
  const auto patterns = sizes.view(at::kLong);
  const auto without_last = patterns.bitwise_and(patterns - 1).view(at::kDouble);
  const auto is_power = patterns.bitwise_and(kFraction) == 0;
  return sizes - at::where(is_power, at::zeros_like(sizes), without_last);
}

// Values, and NaN where there is one on both sides.
at::Tensor are_alike(const at::Tensor& a, const at::Tensor& b) {
  return (a == b).logical_or(a.isnan().logical_and(b.isnan()));
}

}  // namespace

Replicas::Replicas(int world_size, const std::vector<StoredParameter>& parameters)
    : stored_(parameters),
      takes_part_(parameters.size(), true),
      groups_(1, std::vector<int>(static_cast<size_t>(world_size))),
      has_inputs_(static_cast<size_t>(world_size), true),
      ranks_(static_cast<size_t>(world_size)) {
  std::iota(groups_.front().begin(), groups_.front().end(), 0);
  for (auto& rank : ranks_) {
    for (const auto& each : stored_) rank.parameters.push_back(each.value);
    rank.gradients.resize(stored_.size());
    rank.came.resize(stored_.size(), false);
    rank.was_averaged.resize(stored_.size(), false);
    rank.scaling.resize(stored_.size(), Scaling::unknown);
  }
}

void Replicas::certify(bool holds, const char* why_not) {
  if (!holds && why_not_.empty()) why_not_ = why_not;
}

void Replicas::add(int rank, const std::vector<at::Tensor>& gradients) {
  auto& mine = ranks_[static_cast<size_t>(rank)];
  for (size_t p = 0; p < stored_.size(); ++p) {
    if (!gradients[p].defined()) continue;
    auto& gradient = mine.gradients[p];
    gradient = gradient.defined() ? gradient + gradients[p] : gradients[p];
    mine.came[p] = true;
    certify(fits(gradients[p], stored_[p].dtype) && fits(gradient, stored_[p].dtype),
            "a gradient needs more bits");
  }
}

Replicas::Share Replicas::share_of(const Rank& rank, size_t p, int divisor) {
  const auto right = rank.gradients[p] / divisor;
  const auto narrow = rank.gradients[p].to(stored_[p].dtype);
  const auto divided = (narrow / divisor).to(at::kDouble);
  const auto multiplied = (narrow * (1.0 / divisor)).to(at::kDouble);
  const auto scaling = rank.scaling[p];
  const auto is_exact = are_alike(divided, right).logical_and(are_alike(multiplied, right));
  certify(scaling != Scaling::unknown || is_exact.all().item<bool>(),
          "a gradient divided by a number of ranks needs more bits");
  return {scaling == Scaling::divided ? divided : multiplied, is_exact};
}

at::Tensor Replicas::average_of(size_t p, const std::vector<int>& ranks, int divisor) {
  at::Tensor sum = at::zeros_like(stored_[p].value), sizes = sum, shares = sum;
  auto unit = at::full_like(sum, std::numeric_limits<double>::infinity());
  auto is_exact = at::ones_like(sum, at::kBool);
  for (const int rank : ranks) {
    if (!at(rank).gradients[p].defined()) continue;
    const auto share = share_of(at(rank), p, divisor);
    const auto size = finite_part(share.value).abs();
    sum = sum + share.value;
    sizes = sizes + size;
    shares = shares + (size != 0);
    is_exact = is_exact.logical_and(share.is_exact);
    const auto finest = finest_bits(size);
    unit = at::where(finest == 0, unit, at::minimum(unit, finest));
  }
  certify(is_exact.logical_or(shares <= 1).all().item<bool>(),
          "a sum of gradients that were divided by a number of ranks needs more bits");
  const auto most = unit * std::ldexp(1.0, bits_of(stored_[p].dtype));
  certify((sizes <= most).all().item<bool>(), "a sum over the ranks needs more bits");
  return sum;
}

void Replicas::take_part(size_t p, bool takes_part) {
  takes_part_[p] = takes_part;
  if (!takes_part)
    for (auto& rank : ranks_) rank.came[p] = false;
}

void Replicas::average() {
  for (const auto& group : groups_) average_group(group);
}

void Replicas::average_group(const std::vector<int>& group) {
  std::vector<int> ranks;
  for (const int rank : group)
    if (has_inputs_[static_cast<size_t>(rank)]) ranks.push_back(rank);
  if (ranks.empty()) return;
  const auto divisor =
      static_cast<int>(divisor_ == Divisor::group_size ? group.size() : ranks.size());
  for (size_t p = 0; p < stored_.size(); ++p) {
    const bool is_used = takes_part_[p] && std::any_of(ranks.begin(), ranks.end(), [&](int rank) {
                           return at(rank).came[p] && at(rank).gradients[p].defined();
                         });
    for (const int rank : group) ranks_[static_cast<size_t>(rank)].was_averaged[p] = is_used;
    if (!is_used) continue;
    const auto average = average_of(p, ranks, divisor);
    for (const int rank : ranks) ranks_[static_cast<size_t>(rank)].gradients[p] = average;
  }
  for (const int rank : group) ranks_[static_cast<size_t>(rank)].came.assign(stored_.size(), false);
}

void Replicas::forget_passes() {
  for (auto& rank : ranks_) rank.came.assign(stored_.size(), false);
}

void Replicas::hold(int rank, size_t p, const at::Tensor& parameter, const at::Tensor& gradient) {
  auto& mine = ranks_[static_cast<size_t>(rank)];
  mine.parameters[p] = parameter;
  mine.gradients[p] = gradient;
}

void Replicas::load(int rank, size_t p, const at::Tensor& value) {
  ranks_[static_cast<size_t>(rank)].parameters[p] = value;
}

void Replicas::clear(int rank, Cleared how) {
  for (auto& gradient : ranks_[static_cast<size_t>(rank)].gradients)
    if (gradient.defined())
      gradient = how == Cleared::to_none ? at::Tensor() : at::zeros_like(gradient);
}

void Replicas::scale(int rank, double factor) {
  auto& gradients = ranks_[static_cast<size_t>(rank)].gradients;
  for (size_t p = 0; p < gradients.size(); ++p) {
    if (!gradients[p].defined()) continue;
    gradients[p] = gradients[p] * factor;
    certify(fits(gradients[p], stored_[p].dtype), "a scaled gradient needs more bits");
  }
}

void Replicas::update(int rank, double rate, bool only_if_finite) {
  auto& mine = ranks_[static_cast<size_t>(rank)];
  const bool is_finite =
      std::all_of(mine.gradients.begin(), mine.gradients.end(), [](const at::Tensor& each) {
        return !each.defined() || at::isfinite(each).all().item<bool>();
      });
  if (only_if_finite && !is_finite) return;
  for (size_t p = 0; p < stored_.size(); ++p) {
    if (!mine.gradients[p].defined()) continue;
    const auto step = mine.gradients[p] * rate;
    mine.parameters[p] = mine.parameters[p] - step;
    certify(fits(step, stored_[p].dtype) && fits(mine.parameters[p], stored_[p].dtype),
            "an updated parameter needs more bits");
  }
}

}  // namespace lockstep::reference
