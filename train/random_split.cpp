#include "train/random_split.h"

#include "ddp/base/disagreement.h"
#include "ddp/errors.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/torch.h>

#include <cmath>
#include <numeric>
#include <string>

namespace lockstep {

namespace {

[[noreturn]] void refuse(const std::string& sentence) {
  throw UsageError("random_split: " + sentence);
}

// PyTorch's condition: math.isclose(sum, 1), and not more than 1.
bool are_fractions(double sum) {
  constexpr double kRelativeTolerance = 1e-9;
  return sum <= 1 && 1 - sum <= kRelativeTolerance;
}

std::vector<std::size_t> lengths_of_fractions(std::size_t size,
                                              const std::vector<double>& fractions) {
  std::vector<std::size_t> lengths;
  for (const double each : fractions) {
    if (each < 0 || each > 1)
      refuse("the fraction " + exact_text(each) + " is not between 0 and 1");
    lengths.push_back(static_cast<std::size_t>(std::floor(static_cast<double>(size) * each)));
  }
  const auto sum = std::accumulate(lengths.begin(), lengths.end(), std::size_t{0});
  for (std::size_t i = 0; i + sum < size; ++i) ++lengths[i % lengths.size()];
  return lengths;
}

std::vector<std::size_t> whole_lengths(const std::vector<double>& lengths) {
  std::vector<std::size_t> whole;
  for (const double each : lengths) {
    if (!(each >= 0) || each != std::floor(each))
      refuse("the length " + exact_text(each) +
             " is no whole number of samples, and the lengths are no fractions, whose sum is 1");
    whole.push_back(static_cast<std::size_t>(each));
  }
  return whole;
}

}  // namespace

std::vector<std::vector<std::size_t>> random_split(std::size_t size,
                                                   const std::vector<double>& lengths,
                                                   std::uint64_t seed) {
  const double sum = std::accumulate(lengths.begin(), lengths.end(), 0.0);
  const auto counts =
      are_fractions(sum) ? lengths_of_fractions(size, lengths) : whole_lengths(lengths);
  const auto total = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  if (total != size)
    refuse("the sum of the lengths is " + std::to_string(total) + ", expected the " +
           std::to_string(size) + " samples of the dataset");
  const auto generator = at::detail::createCPUGenerator(seed);
  const at::Tensor order = at::randperm(static_cast<std::int64_t>(size), generator,
                                        at::TensorOptions().dtype(at::kLong).device(at::kCPU));
  const auto* next = order.const_data_ptr<std::int64_t>();
  std::vector<std::vector<std::size_t>> parts;
  for (const std::size_t count : counts) {
    parts.emplace_back(count);
    for (std::size_t& index : parts.back()) index = static_cast<std::size_t>(*next++);
  }
  return parts;
}

}  // namespace lockstep
