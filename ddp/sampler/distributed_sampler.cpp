#include "ddp/distributed_sampler.h"

#include "ddp/errors.h"
#include "ddp/sampler/rank_order.h"

#include <torch/torch.h>

#include <algorithm>
#include <string>
#include <string_view>

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
  if (options.constant_memory && (options.order || !options.shuffle)) {
    refuse(std::string("constant_memory is set, but it is for a shuffled order, and ") +
           (options.order ? "order draws another" : "shuffle is off"));
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

// Archives hold tensors, so each number is stored as one.
constexpr const char* kArchiveKeys[] = {"dataset_size", "epoch", "order_epoch",    "position",
                                        "num_replicas", "rank",  "seed",           "shuffle",
                                        "drop_last",    "pad",   "constant_memory"};

// One pass over a dataset, and how many of its samples were drawn.
struct Pass {
  std::int64_t epoch = 0;
  std::size_t dataset_size = 0;
  std::size_t position = 0;
};

}  // namespace

struct DistributedSampler::Progress {
  std::int64_t epoch = 0;  // set last
  // The pass that a copy drew from last; if `is_loaded`, the next pass.
  std::optional<Pass> pass;
  bool is_loaded = false;
};

DistributedSampler::DistributedSampler(std::size_t dataset_size,
                                       const DistributedSamplerOptions& options)
    : dataset_size_(dataset_size), options_(options), progress_(std::make_shared<Progress>()) {
  check(options_);
  check_size(dataset_size);
}

DistributedSampler::DistributedSampler(std::size_t dataset_size, const c10d::ProcessGroup& group,
                                       const DistributedSamplerOptions& options)
    : DistributedSampler(dataset_size, placed_in(group, options)) {}

void DistributedSampler::check_size(std::size_t dataset_size) const {
  if (dataset_size > 0 || options_.allow_empty) return;
  throw UsageError(
      "DistributedSampler: the dataset has no samples, expected at least 1; look at its path and "
      "filters, or set allow_empty where it may be empty");
}

void DistributedSampler::reset(std::optional<std::size_t> new_size) {
  if (new_size) check_size(*new_size);
  dataset_size_ = new_size.value_or(dataset_size_);
  order_.reset();
  if (!progress_->is_loaded) progress_->pass.reset();
}

void DistributedSampler::begin_pass() {
  Pass pass{.epoch = progress_->epoch, .dataset_size = dataset_size_, .position = 0};
  if (progress_->is_loaded) pass = *progress_->pass;
  if (pass.dataset_size != dataset_size_) {
    throw UsageError("DistributedSampler: the loaded position belongs to a dataset of " +
                     std::to_string(pass.dataset_size) + " samples, but this sampler's has " +
                     std::to_string(dataset_size_) +
                     "; use a dataset of the saved size, or begin another epoch with set_epoch()");
  }
  order_ = std::make_shared<const RankOrder>(dataset_size_, options_, pass.epoch);
  progress_->is_loaded = false;
  order_epoch_ = pass.epoch;
  position_ = pass.position;
}

std::optional<std::vector<std::size_t>> DistributedSampler::next(std::size_t batch_size) {
  if (batch_size == 0) {
    throw UsageError("DistributedSampler: batch_size is 0, expected at least 1");
  }
  if (!order_) begin_pass();
  const std::size_t end = position_ + std::min(batch_size, order_->size() - position_);
  std::vector<std::size_t> batch = order_->part(position_, end);
  position_ = end;
  if (!progress_->is_loaded) progress_->pass = Pass{order_epoch_, dataset_size_, position_};
  if (batch.empty()) return std::nullopt;
  return batch;
}

void DistributedSampler::set_epoch(std::int64_t epoch) {
  if (epoch < 0) {
    throw UsageError("DistributedSampler: epoch is " + std::to_string(epoch) +
                     ", expected at least 0");
  }
  const bool leaves_loaded_pass = progress_->is_loaded && epoch != progress_->pass->epoch;
  if (leaves_loaded_pass) *progress_ = {};
  progress_->epoch = epoch;
}

std::int64_t DistributedSampler::epoch() const {
  return progress_->epoch;
}

std::size_t DistributedSampler::size() const {
  return share_of(dataset_size_, options_);
}

at::Tensor DistributedSampler::shared_order() const {
  return order_of(dataset_size_, options_, progress_->epoch);
}

std::vector<std::size_t> DistributedSampler::indices() const {
  const RankOrder order(dataset_size_, options_, progress_->epoch);
  return order.part(0, order.size());
}

void DistributedSampler::save(torch::serialize::OutputArchive& archive) const {
  write(archive, drawn());
}

void DistributedSampler::save(torch::serialize::OutputArchive& archive,
                              std::size_t samples_used) const {
  if (samples_used > drawn()) {
    throw UsageError("DistributedSampler: samples_used is " + std::to_string(samples_used) +
                     ", expected at most the " + std::to_string(drawn()) +
                     " that this pass has drawn");
  }
  write(archive, samples_used);
}

std::size_t DistributedSampler::drawn() const {
  return progress_->pass ? progress_->pass->position : 0;
}

void DistributedSampler::write(torch::serialize::OutputArchive& archive,
                               std::size_t position) const {
  const Pass pass = progress_->pass.value_or(Pass{progress_->epoch, dataset_size_, 0});
  const std::int64_t values[] = {static_cast<std::int64_t>(pass.dataset_size),
                                 progress_->epoch,
                                 pass.epoch,
                                 static_cast<std::int64_t>(position),
                                 *options_.num_replicas,
                                 *options_.rank,
                                 static_cast<std::int64_t>(options_.seed),
                                 options_.shuffle ? 1 : 0,
                                 options_.drop_last ? 1 : 0,
                                 options_.pad ? 1 : 0,
                                 options_.constant_memory ? 1 : 0};
  for (std::size_t i = 0; i < std::size(kArchiveKeys); ++i) {
    archive.write(kArchiveKeys[i], at::full({}, values[i], at::kLong), /*is_buffer=*/true);
  }
}

void DistributedSampler::load(torch::serialize::InputArchive& archive) {
  const auto read = [&](std::size_t i) -> std::int64_t {
    at::Tensor value;
    if (archive.try_read(kArchiveKeys[i], value, /*is_buffer=*/true)) {
      return value.item<std::int64_t>();
    }
    const std::string_view key = kArchiveKeys[i];  // Older versions wrote neither of these.
    if (key == "pad") return 1;
    if (key == "constant_memory") return 0;
    archive.read(kArchiveKeys[i], value, /*is_buffer=*/true);  // says what is missing
    return 0;
  };
  const std::int64_t expected[] = {*options_.num_replicas,
                                   *options_.rank,
                                   static_cast<std::int64_t>(options_.seed),
                                   options_.shuffle ? 1 : 0,
                                   options_.drop_last ? 1 : 0,
                                   options_.pad ? 1 : 0,
                                   options_.constant_memory ? 1 : 0};
  for (std::size_t i = 0; i < std::size(expected); ++i) {
    const std::int64_t saved = read(4 + i);
    if (saved == expected[i]) continue;
    throw UsageError(std::string("DistributedSampler: the archive's ") + kArchiveKeys[4 + i] +
                     " is " + std::to_string(saved) + ", expected " + std::to_string(expected[i]));
  }
  const std::int64_t epoch = read(1);
  const Pass pass{.epoch = read(2),
                  .dataset_size = static_cast<std::size_t>(read(0)),
                  .position = static_cast<std::size_t>(read(3))};
  const std::size_t share = share_of(pass.dataset_size, options_);
  if (pass.position > share) {
    throw UsageError("DistributedSampler: the archive's position is " +
                     std::to_string(pass.position) + ", expected at most " + std::to_string(share));
  }
  set_epoch(epoch);
  order_.reset();
  // A pass of which nothing was used is a new one, unless it was of an earlier epoch.
  progress_->is_loaded = pass.position > 0 || pass.epoch != epoch;
  progress_->pass.reset();
  if (progress_->is_loaded) progress_->pass = pass;
}

}  // namespace lockstep
