#include "ddp/distributed_sampler.h"

#include "ddp/errors.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/torch.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

namespace lockstep {

namespace {

void check(const DistributedSamplerOptions& options) {
  const auto refuse = [](const std::string& sentence) {
    throw UsageError("DistributedSampler: " + sentence);
  };
  if (!options.num_replicas) refuse("num_replicas is not given, expected the number of ranks");
  if (!options.rank) refuse("rank is not given, expected this rank's number");
  if (*options.num_replicas < 1) {
    refuse("num_replicas is " + std::to_string(*options.num_replicas) + ", expected at least 1");
  }
  if (*options.rank < 0 || *options.rank >= *options.num_replicas) {
    refuse("rank is " + std::to_string(*options.rank) + ", expected 0 to " +
           std::to_string(*options.num_replicas - 1));
  }
}

DistributedSamplerOptions placed_in(const c10d::ProcessGroup& group,
                                    DistributedSamplerOptions options) {
  const auto place = [](std::optional<std::int64_t>& option, std::int64_t value,
                        const std::string& name) {
    if (option && *option != value) {
      throw UsageError("DistributedSampler: " + name + " is " + std::to_string(*option) +
                       ", but the process group's is " + std::to_string(value));
    }
    option = value;
  };
  place(options.num_replicas, group.getSize(), "num_replicas");
  place(options.rank, group.getRank(), "rank");
  return options;
}

// The order of the whole dataset that all ranks share.
std::vector<std::size_t> shared_order(std::size_t dataset_size,
                                      const DistributedSamplerOptions& options,
                                      std::int64_t epoch) {
  std::vector<std::size_t> order(dataset_size);
  if (!options.shuffle) {
    std::iota(order.begin(), order.end(), std::size_t{0});
    return order;
  }
  const auto generator =
      at::detail::createCPUGenerator(options.seed + static_cast<std::uint64_t>(epoch));
  const at::Tensor permutation =
      at::randperm(static_cast<std::int64_t>(dataset_size), generator,
                   at::TensorOptions().dtype(at::kLong).device(at::kCPU));
  const auto* const first = permutation.const_data_ptr<std::int64_t>();
  std::transform(first, first + dataset_size, order.begin(),
                 [](std::int64_t index) { return static_cast<std::size_t>(index); });
  return order;
}

// Samples a rank gets: a quotient, rounded down or up.
std::size_t share_of(std::size_t dataset_size, const DistributedSamplerOptions& options) {
  const auto replicas = static_cast<std::size_t>(*options.num_replicas);
  return dataset_size / replicas +
         (!options.drop_last && dataset_size % replicas != 0 ? std::size_t{1} : std::size_t{0});
}

std::vector<std::size_t> rank_order(std::size_t dataset_size,
                                    const DistributedSamplerOptions& options, std::int64_t epoch) {
  const std::vector<std::size_t> shared = shared_order(dataset_size, options, epoch);
  std::vector<std::size_t> mine(share_of(dataset_size, options));
  auto position = static_cast<std::size_t>(*options.rank);
  for (std::size_t& index : mine) {
    index = shared[position % dataset_size];  // past the end, the order begins again
    position += static_cast<std::size_t>(*options.num_replicas);
  }
  return mine;
}

// Archives hold tensors; each number is one.
constexpr const char* kArchiveKeys[] = {"dataset_size", "epoch",        "order_epoch",
                                        "position",     "num_replicas", "rank",
                                        "seed",         "shuffle",      "drop_last"};

}  // namespace

DistributedSampler::DistributedSampler(std::size_t dataset_size,
                                       const DistributedSamplerOptions& options)
    : dataset_size_(dataset_size), options_(options), epoch_(std::make_shared<std::int64_t>(0)) {
  check(options_);
}

DistributedSampler::DistributedSampler(std::size_t dataset_size, const c10d::ProcessGroup& group,
                                       const DistributedSamplerOptions& options)
    : DistributedSampler(dataset_size, placed_in(group, options)) {}

void DistributedSampler::reset(std::optional<std::size_t> new_size) {
  dataset_size_ = new_size.value_or(dataset_size_);
  order_.reset();
  position_ = 0;
}

std::optional<std::vector<std::size_t>> DistributedSampler::next(std::size_t batch_size) {
  if (batch_size == 0) {
    throw UsageError("DistributedSampler: batch_size is 0, expected at least 1");
  }
  if (!order_) {
    order_epoch_ = *epoch_;
    order_ = rank_order(dataset_size_, options_, order_epoch_);
  }
  if (position_ == order_->size()) return std::nullopt;
  const std::size_t end = position_ + std::min(batch_size, order_->size() - position_);
  std::vector<std::size_t> batch(order_->begin() + static_cast<std::ptrdiff_t>(position_),
                                 order_->begin() + static_cast<std::ptrdiff_t>(end));
  position_ = end;
  return batch;
}

void DistributedSampler::set_epoch(std::int64_t epoch) {
  if (epoch < 0) {
    throw UsageError("DistributedSampler: epoch is " + std::to_string(epoch) +
                     ", expected at least 0");
  }
  *epoch_ = epoch;
}

std::int64_t DistributedSampler::epoch() const {
  return *epoch_;
}

std::size_t DistributedSampler::size() const {
  return share_of(dataset_size_, options_);
}

std::vector<std::size_t> DistributedSampler::indices() const {
  return rank_order(dataset_size_, options_, *epoch_);
}

void DistributedSampler::save(torch::serialize::OutputArchive& archive) const {
  const std::int64_t values[] = {static_cast<std::int64_t>(dataset_size_),
                                 *epoch_,
                                 order_ ? order_epoch_ : *epoch_,
                                 static_cast<std::int64_t>(position_),
                                 *options_.num_replicas,
                                 *options_.rank,
                                 static_cast<std::int64_t>(options_.seed),
                                 options_.shuffle ? 1 : 0,
                                 options_.drop_last ? 1 : 0};
  for (std::size_t i = 0; i < std::size(kArchiveKeys); ++i) {
    archive.write(kArchiveKeys[i], at::full({}, values[i], at::kLong), /*is_buffer=*/true);
  }
}

void DistributedSampler::load(torch::serialize::InputArchive& archive) {
  const auto read = [&](std::size_t i) {
    at::Tensor value;
    archive.read(kArchiveKeys[i], value, /*is_buffer=*/true);
    return value.item<std::int64_t>();
  };
  const std::int64_t expected[] = {*options_.num_replicas, *options_.rank,
                                   static_cast<std::int64_t>(options_.seed),
                                   options_.shuffle ? 1 : 0, options_.drop_last ? 1 : 0};
  for (std::size_t i = 0; i < std::size(expected); ++i) {
    const std::int64_t saved = read(4 + i);
    if (saved == expected[i]) continue;
    throw UsageError(std::string("DistributedSampler: the archive's ") + kArchiveKeys[4 + i] +
                     " is " + std::to_string(saved) + ", expected " + std::to_string(expected[i]));
  }
  reset(static_cast<std::size_t>(read(0)));
  set_epoch(read(1));
  const auto position = static_cast<std::size_t>(read(3));
  if (position > size()) {
    throw UsageError("DistributedSampler: the archive's position is " + std::to_string(position) +
                     ", expected at most " + std::to_string(size()));
  }
  position_ = position;
  order_epoch_ = read(2);
  if (position_ > 0) order_ = rank_order(dataset_size_, options_, order_epoch_);
}

}  // namespace lockstep
