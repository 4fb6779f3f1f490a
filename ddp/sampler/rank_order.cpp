#include "ddp/sampler/rank_order.h"

#include "ddp/errors.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/torch.h>

#include <sstream>
#include <string>

namespace lockstep {

namespace {

std::uint64_t seed_of(const DistributedSamplerOptions& options, std::int64_t epoch) {
  return options.seed + static_cast<std::uint64_t>(epoch);
}

}  // namespace

std::size_t share_of(std::size_t dataset_size, const DistributedSamplerOptions& options) {
  const auto replicas = static_cast<std::size_t>(*options.num_replicas);
  const std::size_t rest = dataset_size % replicas;
  const std::size_t beyond = options.pad ? 0 : static_cast<std::size_t>(*options.rank);
  return dataset_size / replicas + (!options.drop_last && rest > beyond ? 1U : 0U);
}

at::Tensor order_of(std::size_t dataset_size, const DistributedSamplerOptions& options,
                    std::int64_t epoch) {
  if (options.constant_memory || (!options.shuffle && !options.order)) return {};
  const auto generator = at::detail::createCPUGenerator(seed_of(options, epoch));
  if (!options.order) {
    return at::randperm(static_cast<std::int64_t>(dataset_size), generator,
                        at::TensorOptions().dtype(at::kLong).device(at::kCPU));
  }
  const at::Tensor order = options.order(dataset_size, generator);
  if (!order.defined() || order.scalar_type() != at::kLong || order.dim() != 1 ||
      order.size(0) != static_cast<std::int64_t>(dataset_size)) {
    std::ostringstream given;
    if (order.defined()) given << order.scalar_type() << " " << order.sizes();
    throw UsageError("DistributedSampler: options.order returned " +
                     (order.defined() ? given.str() : "an undefined tensor") + ", expected Long [" +
                     std::to_string(dataset_size) + "], an index for each sample of an epoch");
  }
  if (const auto least = dataset_size > 0 ? order.min().item<std::int64_t>() : 0; least < 0) {
    throw UsageError("DistributedSampler: options.order returned the index " +
                     std::to_string(least) + ", expected none below 0");
  }
  return order.to(at::kCPU).contiguous();
}

RankOrder::RankOrder(std::size_t dataset_size, const DistributedSamplerOptions& options,
                     std::int64_t epoch)
    : dataset_size_(dataset_size),
      stride_(static_cast<std::size_t>(*options.num_replicas)),
      first_(static_cast<std::size_t>(*options.rank)),
      size_(share_of(dataset_size, options)) {
  if (options.constant_memory && dataset_size > 0) {
    permutation_.emplace(dataset_size, seed_of(options, epoch));
  }
  const at::Tensor shared = order_of(dataset_size, options, epoch);
  if (!shared.defined()) return;
  const auto* const indices = shared.const_data_ptr<std::int64_t>();
  drawn_.reserve(size_);
  for (std::size_t i = 0; i < size_; ++i) {
    drawn_.push_back(static_cast<std::size_t>(indices[place(i)]));
  }
}

std::vector<std::size_t> RankOrder::part(std::size_t begin, std::size_t end) const {
  std::vector<std::size_t> indices(end - begin);
  for (std::size_t i = begin; i < end; ++i) {
    indices[i - begin] = index(i);
  }
  return indices;
}

std::size_t RankOrder::index(std::size_t i) const {
  if (permutation_) return (*permutation_)(place(i));
  return drawn_.empty() ? place(i) : drawn_[i];
}

}  // namespace lockstep
