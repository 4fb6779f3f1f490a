#include "reference/replicas.h"

#include <torch/torch.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <stdexcept>
#include <type_traits>

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
    case at::kFloat:
      return 24;
    default:
      throw std::invalid_argument("no precision is known of this dtype");
  }
}

// The numbers of these tensors are few, and a call of LibTorch takes longer than a look at each.
std::span<const double> numbers_of(const at::Tensor& contiguous) {
  return {contiguous.const_data_ptr<double>(), static_cast<size_t>(contiguous.numel())};
}

// Calls `act` with a zero of the type in which numbers are stored.
template <class Act>
auto with_stored(at::ScalarType dtype, const Act& act) {
  switch (dtype) {
    case at::kDouble:
      return act(double{});
    case at::kHalf:
      return act(at::Half{});
    case at::kBFloat16:
      return act(at::BFloat16{});
    default:
      return act(float{});
  }
}

// The format in which LibTorch computes with such numbers before it rounds.
template <class Stored>
using Computed = std::conditional_t<std::is_same_v<Stored, double>, double, float>;

template <class Stored>
double rounded(Computed<Stored> number) {
  return static_cast<double>(static_cast<Stored>(number));
}

bool fits(const at::Tensor& values, at::ScalarType dtype) {
  const at::Tensor contiguous = values.contiguous();
  return with_stored(dtype, [&]<class Stored>(Stored) {
    return std::ranges::all_of(numbers_of(contiguous), [](double number) {
      return !std::isfinite(number) ||
             rounded<Stored>(static_cast<Computed<Stored>>(number)) == number;
    });
  });
}

// The finest bit, as a power of two; 0 for zero. Without its last bit a number's pattern is that of
// the next smaller multiple of the bit before.
double finest_bit(double size) {
  constexpr uint64_t kFraction = (uint64_t{1} << 52) - 1;
  const auto pattern = std::bit_cast<uint64_t>(size);
  const bool is_power = (pattern & kFraction) == 0;
  return is_power ? size : size - std::bit_cast<double>(pattern & (pattern - 1));
}

bool are_alike(double a, double b) {
  return a == b || (std::isnan(a) && std::isnan(b));
}

// A gradient scaled for an average; rounded in a known way it is not exact.
struct Share {
  double value = 0;
  bool is_exact = true;
};

template <class Stored>
Share share_of(double gradient, int divisor, Scaling scaling) {
  using Number = Computed<Stored>;
  const double right = gradient / divisor;
  const auto narrow = static_cast<Number>(rounded<Stored>(static_cast<Number>(gradient)));
  const double divided = rounded<Stored>(narrow / static_cast<Number>(divisor));
  const double multiplied = rounded<Stored>(narrow * static_cast<Number>(1.0 / divisor));
  return {scaling == Scaling::divided ? divided : multiplied,
          are_alike(divided, right) && are_alike(multiplied, right)};
}

// An element of a sum over the ranks: what decides whether its format holds it in any order.
struct Sum {
  double value = 0, sizes = 0;
  double unit = std::numeric_limits<double>::infinity();  // the finest bit of its shares
  int shares = 0;
  bool is_exact = true;

  void add(const Share& share) {
    const double size = std::isfinite(share.value) ? std::abs(share.value) : 0;
    value += share.value;
    sizes += size;
    is_exact = is_exact && share.is_exact;
    if (size == 0) return;
    ++shares;
    unit = std::min(unit, finest_bit(size));
  }
};

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

at::Tensor Replicas::average_of(size_t p, const std::vector<int>& ranks, int divisor) {
  const auto& stored = stored_[p];
  std::vector<Sum> sums(static_cast<size_t>(stored.value.numel()));
  for (const int rank : ranks) {
    if (!at(rank).gradients[p].defined()) continue;
    const at::Tensor contiguous = at(rank).gradients[p].contiguous();
    const auto gradients = numbers_of(contiguous);
    const auto scaling = at(rank).scaling[p];
    bool is_exact = true;
    with_stored(stored.dtype, [&]<class Stored>(Stored) {
      for (size_t i = 0; i < gradients.size(); ++i) {
        const auto share = share_of<Stored>(gradients[i], divisor, scaling);
        sums[i].add(share);
        is_exact = is_exact && share.is_exact;
      }
    });
    certify(scaling != Scaling::unknown || is_exact,
            "a gradient divided by a number of ranks needs more bits");
  }
  certify(std::ranges::all_of(sums, [](const Sum& sum) { return sum.is_exact || sum.shares <= 1; }),
          "a sum of gradients that were divided by a number of ranks needs more bits");
  const double units_most = std::ldexp(1.0, bits_of(stored.dtype));
  certify(
      std::ranges::all_of(sums, [&](const Sum& sum) { return sum.sizes <= sum.unit * units_most; }),
      "a sum over the ranks needs more bits");
  at::Tensor average = at::empty(stored.value.sizes(), at::kDouble);
  std::ranges::transform(sums, average.mutable_data_ptr<double>(),
                         [](const Sum& sum) { return sum.value; });
  return average;
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
