#pragma once

#include "ddp/distributed_sampler.h"
#include "ddp/sampler/index_permutation.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace lockstep {

// The number of samples of a rank: a quotient, rounded down or up.
std::size_t share_of(std::size_t dataset_size, const DistributedSamplerOptions& options);

// The order of the whole dataset that all ranks share; undefined where it is not stored.
at::Tensor order_of(std::size_t dataset_size, const DistributedSamplerOptions& options,
                    std::int64_t epoch);

// This rank's samples of one epoch, in the order in which it draws them.
class RankOrder {
 public:
  RankOrder(std::size_t dataset_size, const DistributedSamplerOptions& options, std::int64_t epoch);

  std::size_t size() const { return size_; }

  std::vector<std::size_t> part(std::size_t begin, std::size_t end) const;

 private:
  std::size_t index(std::size_t i) const;

  // In the order that all ranks share; past its end it repeats.
  std::size_t place(std::size_t i) const { return (first_ + i * stride_) % dataset_size_; }

  std::size_t dataset_size_, stride_, first_, size_;
  std::vector<std::size_t> drawn_;               // where that order is stored
  std::optional<IndexPermutation> permutation_;  // with constant_memory
};

}  // namespace lockstep
