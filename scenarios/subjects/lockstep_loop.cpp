#include "scenarios/subjects/lockstep_loop.h"

#include "ddp/distributed_sampler.h"
#include "harness/rank/rank_context.h"
#include "scenarios/subjects/lockstep_optimizers.h"
#include "train/check_replicas_equal.h"
#include "train/checkpoint.h"
#include "train/collectives.h"
#include "train/random_split.h"

#include <torch/torch.h>

#include <map>
#include <sstream>

namespace lockstep {

namespace {

// A dataset whose sample number i is the number i.
class Numbers : public torch::data::datasets::Dataset<Numbers, int64_t> {
 public:
  explicit Numbers(size_t length) : length_(length) {}
  int64_t get(size_t index) override { return static_cast<int64_t>(index); }
  torch::optional<size_t> size() const override { return length_; }

 private:
  size_t length_;
};

// An order that is wrong in one way.
at::Tensor refused(SampleOrder order, const at::Tensor& drawn) {
  if (order == SampleOrder::undefined) return {};
  if (order == SampleOrder::of_int32) return drawn.to(at::kInt);
  if (order == SampleOrder::of_two_axes) return drawn.unsqueeze(1);
  if (order == SampleOrder::too_long) return at::cat({drawn, drawn.slice(0, 0, 1)});
  return order == SampleOrder::too_short ? drawn.slice(0, 1) : drawn - 1;
}

// A program's order of an epoch.
std::function<at::Tensor(size_t, at::Generator)> order_of(SampleOrder order) {
  if (order == SampleOrder::own) return nullptr;
  return [order](size_t length, const at::Generator& generator) {
    const auto drawn = at::randperm(static_cast<int64_t>(length), generator, at::kLong);
    if (is_refused(order, drawn.numel())) return refused(order, drawn);
    auto out = at::zeros({drawn.numel(), 2}, at::kLong).select(1, 0);
    for (int64_t i = 0; i < drawn.numel(); ++i)
      out[i] = sample_at(order, drawn[i].item<int64_t>(), drawn.numel());
    return order == SampleOrder::strided ? out : out.contiguous();
  };
}

DistributedSampler sampler_of(const ShardOptions& options, RankContext& here) {
  DistributedSamplerOptions own{.shuffle = options.shuffle,
                                .seed = static_cast<uint64_t>(options.seed),
                                .drop_last = options.drop_last,
                                .pad = options.pad,
                                .order = order_of(options.order),
                                .constant_memory = options.constant_memory,
                                .allow_empty = options.allow_empty};
  const auto length = static_cast<size_t>(options.length);
  own.num_replicas = options.ranks;
  own.rank = options.rank;
  if (options.from_group) return {length, *here.group(), own};
  if (!own.num_replicas) own.num_replicas = here.size();
  if (!own.rank) own.rank = here.rank();
  return {length, own};
}

class Sharded : public Shard {
 public:
  Sharded(const ShardOptions& options, RankContext& here)
      : options_(options), sampler_(sampler_of(options, here)) {
    if (options.through_loader)
      loader_ = torch::data::make_data_loader(
          Numbers(static_cast<size_t>(options.length)), sampler_,
          torch::data::DataLoaderOptions(static_cast<size_t>(options.batch_size)));
  }

  void set_epoch(int64_t epoch) override { sampler_.set_epoch(epoch); }

  void begin(std::optional<int64_t> length) override {
    if (length)
      sampler_.reset(static_cast<size_t>(*length));
    else
      sampler_.reset();
  }

  std::vector<int64_t> next(int64_t most) override {
    const auto batch = sampler_.next(static_cast<size_t>(most));
    if (!batch) return {};
    return {batch->begin(), batch->end()};
  }

  std::string save(std::optional<int64_t> samples_used) override {
    torch::serialize::OutputArchive archive;
    if (samples_used)
      sampler_.save(archive, static_cast<size_t>(*samples_used));
    else
      sampler_.save(archive);
    std::ostringstream bytes;
    archive.save_to(bytes);
    return bytes.str();
  }

  void load(const std::string& saved) override {
    std::istringstream bytes(saved);
    torch::serialize::InputArchive archive;
    archive.load_from(bytes);
    sampler_.load(archive);
  }

  void go_on_with_a_copy() override {
    left_.emplace(sampler_);
    std::swap(sampler_, *left_);
  }
  void turn_to_the_other_copy() override {
    if (left_) std::swap(sampler_, *left_);
  }

  std::vector<int64_t> draw() override {
    std::vector<int64_t> samples;
    if (loader_) {
      for (const auto& batch : *loader_) samples.insert(samples.end(), batch.begin(), batch.end());
      return samples;
    }
    sampler_.reset();
    while (const auto batch = sampler_.next(static_cast<size_t>(options_.batch_size)))
      for (const auto sample : *batch) samples.push_back(static_cast<int64_t>(sample));
    return samples;
  }

  // As many as the sampler says.
  std::optional<std::vector<int64_t>> foretold() const override {
    const auto indices = sampler_.indices();
    std::vector<int64_t> out(indices.begin(), indices.end());
    out.resize(sampler_.size());
    return out;
  }

  DistributedSampler& sampler() { return sampler_; }

 private:
  using Loader = torch::data::StatelessDataLoader<Numbers, DistributedSampler>;
  ShardOptions options_;
  DistributedSampler sampler_;
  std::optional<DistributedSampler> left_;  // a copy
  std::unique_ptr<Loader> loader_;
};

constexpr std::chrono::milliseconds kTimeOfAnotherCall{20'000};

std::optional<std::chrono::milliseconds> as_time(std::optional<int64_t> ms) {
  if (!ms) return {};
  return std::chrono::milliseconds(*ms);
}

DistributedSampler* sampler_of(const TrainingState& state) {
  auto* const sampler = dynamic_cast<Sharded*>(state.sampler);
  return sampler != nullptr ? &sampler->sampler() : nullptr;
}

Checkpoint pointers_to(const TrainingState& state) {
  return {.model = state.model,
          .optimizer = state.optimizer,
          .sampler = sampler_of(state),
          .samples_used = state.samples_used,
          .epoch = state.epoch,
          .step = state.step,
          .generators = state.generators};
}

}  // namespace

std::unique_ptr<Shard> lockstep_shard(const ShardOptions& options, RankContext& here) {
  return std::make_unique<Sharded>(options, here);
}

Checkpoints lockstep_checkpoints() {
  return {.save =
              [](const std::string& path, const Group& group, const TrainingState& state,
                 const KeptCheckpoints& kept, std::optional<int64_t> timeout_ms) {
                const GivesBack what_it_keeps(group);
                save_checkpoint(path, group, pointers_to(state),
                                {.keep_last = kept.keep_last,
                                 .is_best = kept.is_best,
                                 .timeout = as_time(timeout_ms)});
              },
          .load =
              [](const std::string& path, const Group& group, const TrainingState& state,
                 std::optional<int64_t> timeout_ms) {
                const GivesBack what_it_keeps(group);
                load_checkpoint(path, group, pointers_to(state), {.timeout = as_time(timeout_ms)});
              }};
}

void lockstep_check_equal(const TrainingState& parts, const Group& group) {
  const GivesBack what_it_keeps(group);
  check_replicas_equal(
      group, {.model = parts.model, .optimizer = parts.optimizer, .sampler = sampler_of(parts)});
}

std::vector<at::Tensor> lockstep_collective(const ProgramCollective& call, const Group& all) {
  const std::map<ReductionKind, ReduceOp> reductions{
      {ReductionKind::sum, ReduceOp::SUM},         {ReductionKind::avg, ReduceOp::AVG},
      {ReductionKind::product, ReduceOp::PRODUCT}, {ReductionKind::min, ReduceOp::MIN},
      {ReductionKind::max, ReduceOp::MAX},         {ReductionKind::band, ReduceOp::BAND},
      {ReductionKind::bor, ReduceOp::BOR},         {ReductionKind::bxor, ReduceOp::BXOR}};
  const GivesBack what_it_keeps(all);
  std::vector<Group> before;
  for (int i = 0; i < call.groups_before; ++i) before.push_back(new_group(all, call.ranks));
  CollectiveOptions options{.name = {}, .timeout = {}};
  if (call.beforehand) options.timeout = as_time(call.timeout_ms);
  const Group group = call.ranks.empty() ? all : new_group(all, call.ranks, options);
  if (!group) return {};
  const GivesBack what_its_group_keeps(group);
  options = {.name = "of the program", .timeout = {}};
  if (call.beforehand) {
    barrier(group, {.name = options.name, .timeout = kTimeOfAnotherCall});
    call.beforehand();
  }
  // The time of a call, or that of the group that was made for it.
  if (!call.beforehand || call.ranks.empty()) options.timeout = as_time(call.timeout_ms);
  if (call.kind == CollectiveKind::all_gather) return all_gather(group, call.tensor, options);
  if (call.kind == CollectiveKind::gather) return gather(group, call.tensor, call.root, options);
  if (call.kind == CollectiveKind::broadcast) broadcast(group, call.tensor, call.root, options);
  if (call.kind == CollectiveKind::scatter)
    scatter(group, call.tensor, call.parts, call.root, options);
  if (call.kind == CollectiveKind::all_reduce)
    all_reduce(group, call.tensor, reductions.at(call.reduction), options);
  if (call.kind == CollectiveKind::barrier) barrier(group, options);
  if (call.kind == CollectiveKind::reduce)
    reduce(group, call.tensor, call.root, reductions.at(call.reduction), options);
  return {};
}

std::vector<std::vector<int64_t>> lockstep_random_split(int64_t size,
                                                        const std::vector<double>& shares,
                                                        uint64_t seed) {
  std::vector<std::vector<int64_t>> out;
  for (const auto& part : random_split(static_cast<std::size_t>(size), shares, seed))
    out.emplace_back(part.begin(), part.end());
  return out;
}

}  // namespace lockstep
