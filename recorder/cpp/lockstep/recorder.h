#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/data/datasets/tensor.h>
#include <torch/data/samplers/base.h>
#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

namespace lockstep {

class Recorder;
template <class Sampler>
class RecordedSampler;
template <class Join>
class RecordedJoin;

// True for a sampler of indices.
template <class T>
constexpr bool kIsSampler = std::is_base_of_v<torch::data::samplers::Sampler<>, T>;

// True for another sampler, such as a stream's. Any other argument of watch() is a model.
template <class T>
constexpr bool kDealsNoIndices = !kIsSampler<T> && requires {
  typename T::BatchRequestType;
};

// The passes of one sampler over its dataset. Copies of a sampler share it.
class SamplerLog {
 public:
  // The facts of a pass as it begins; -1 where one is not known.
  struct Pass {
    std::string sampler;
    std::string fingerprint;  // of the dataset's first sample; empty: not known
    std::int64_t length = -1, replicas = -1, rank = -1, epoch = 0;
    std::uint64_t seed = 0;
    bool shuffles = false, drops = false;
  };
  virtual ~SamplerLog() = default;
  virtual void begin(const Pass& pass, std::size_t batch_size) = 0;
  virtual void drawn(const std::vector<std::size_t>& indices) = 0;
  virtual void exhausted() = 0;
};

// Records what one rank of a training does, for `lockstep judge` and `lockstep trace`: digests of
// parameters, gradients and optimizer state, hyper-parameters, the indices that samplers deal, and
// every collective of its group. One for a process; it writes FOLDER/rank0.history, in the format
// of docs/protocol.md, section 5. The folder is the one that LOCKSTEP_RECORD names.
//
//   lockstep::Recorder recorder(lockstep::init_process_group());
//   auto group = recorder.group();  // in place of the other
//   lockstep::DistributedDataParallel ddp(net, {.process_group = group});
//   recorder.watch(ddp);
//   auto sampler = recorder.watch(lockstep::DistributedSampler(samples, *group));
//   ...
//     recorder.step(optimizer);  // in place of optimizer.step()
//
// Where LOCKSTEP_RECORD is not set and no folder is given it is off: group() is the group that it
// was given, no hook is set, and everything passes through.
//
// A rank that is killed leaves what it has recorded. The folder is made for its owner alone (0700),
// the file too (0600); a file that is there is never overwritten, and no link is followed. A file
// has at most 64 MiB: then it ends, and says so. A file that can no longer be written ends the
// recording with a sentence on stderr, and not the program. An event that cannot be recorded is a
// fact in the file. A process that is forked from this one writes nothing.
//
// Local, but for the collectives that it passes on; use it from the thread that trains.
class Recorder {
 public:
  // Where nothing can be recorded, since the file cannot be made or `group` is null, it says so on
  // stderr and is off.
  explicit Recorder(c10::intrusive_ptr<c10d::ProcessGroup> group,
                    std::filesystem::path folder = {});
  // Records how the rank ended: by an exception, where one unwinds it.
  ~Recorder();
  Recorder(Recorder&&) = delete;

  bool is_on() const { return impl_ != nullptr; }

  // A group over the same backends, whose collectives are recorded, those of groups that are split
  // off it included. Collectives of the original group are not.
  const c10::intrusive_ptr<c10d::ProcessGroup>& group() const { return group_; }

  // Records `model`'s parameters now and after each step, and its gradients after each backward
  // pass. `model` is a DistributedDataParallel, a module's holder or a shared_ptr of a module.
  template <class Model>
  requires(!kIsSampler<Model> && !kDealsNoIndices<Model>) void watch(const Model& model);

  // A sampler that deals what `sampler` does, and records it. For a data loader, which copies it.
  template <class Sampler>
  requires kIsSampler<Sampler> RecordedSampler<Sampler> watch(Sampler sampler);

  // Returns `sampler`: it deals no indices that could be recorded.
  template <class Sampler>
  requires kDealsNoIndices<Sampler> Sampler watch(Sampler sampler) { return sampler; }

  // The same for a sampler that does not know its dataset, such as RandomSampler: records the
  // dataset's size, and for a TensorDataset, which nothing changes by a look, a digest of its first
  // sample, so that ranks with one dataset are seen to have one.
  template <class Sampler, class Dataset>
  requires kIsSampler<Sampler> RecordedSampler<Sampler> watch(Sampler sampler, Dataset& dataset);

  // A step of `optimizer`, recorded: in place of optimizer.step(closure). It is one of LibTorch's,
  // or one that has one: a ZeroRedundancyOptimizer, a PostLocalSgdOptimizer.
  template <class Optimizer>
  at::Tensor step(Optimizer& optimizer, torch::optim::Optimizer::LossClosure closure = nullptr) {
    const auto update = [&] { return optimizer.step(std::move(closure)); };
    if constexpr (requires { optimizer.local(); })
      return record_step(optimizer.local(), update);
    else if constexpr (requires { optimizer.optimizer(); })
      return record_step(optimizer.optimizer(), update);
    else
      return record_step(optimizer, update);
  }

  // A join of ranks with uneven inputs, recorded: in place of ddp.join(options...). Call finish()
  // of what it returns.
  template <class DistributedDataParallel, class... Options>
  auto join(DistributedDataParallel& ddp, Options&&... options) {
    join_begins();
    return RecordedJoin(*this, ddp.join(std::forward<Options>(options)...));
  }

 private:
  class Impl;
  template <class Join>
  friend class RecordedJoin;

  // The facts that a DistributedDataParallel gives about itself; another module gives nothing.
  struct Wrapper {
    std::function<std::int64_t()> reduced_passes;  // synchronised passes so far; null: no wrapper
    bool broadcasts_buffers = false, finds_unused_parameters = false;
  };
  void watch_module(std::shared_ptr<torch::nn::Module> module, Wrapper wrapper);
  std::shared_ptr<SamplerLog> new_sampler_log();
  at::Tensor record_step(torch::optim::Optimizer& optimizer,
                         const std::function<at::Tensor()>& update);
  void join_begins();
  void inputs_are_exhausted();
  void join_has_ended();
  static std::string fingerprint_of(const at::Tensor& first_sample);

  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  std::unique_ptr<Impl> impl_;  // null: off
};

template <class Join>
class [[nodiscard]] RecordedJoin {
 public:
  RecordedJoin(Recorder& recorder, Join join) : recorder_(recorder), join_(std::move(join)) {}

  // Collective: join's finish().
  void finish() {
    recorder_.inputs_are_exhausted();
    join_.finish();
    recorder_.join_has_ended();
  }

 private:
  Recorder& recorder_;
  Join join_;
};

template <class Sampler>
class RecordedSampler : public Sampler {
 public:
  struct About {
    std::int64_t length = -1;
    std::string fingerprint;
  };
  RecordedSampler(Sampler sampler, std::shared_ptr<SamplerLog> log, About dataset)
      : Sampler(std::move(sampler)), log_(std::move(log)), dataset_(std::move(dataset)) {}

  void reset(std::optional<std::size_t> new_size = std::nullopt) override {
    Sampler::reset(new_size);
    has_begun_ = false;
  }

  std::optional<std::vector<std::size_t>> next(std::size_t batch_size) override {
    auto batch = Sampler::next(batch_size);
    if (!log_) return batch;
    if (!has_begun_) log_->begin(pass(), batch_size);
    has_begun_ = true;
    if (batch)
      log_->drawn(*batch);
    else
      log_->exhausted();
    return batch;
  }

 private:
  SamplerLog::Pass pass() const {
    SamplerLog::Pass pass{.sampler = typeid(Sampler).name(),
                          .fingerprint = dataset_.fingerprint,
                          .length = dataset_.length};
    if constexpr (requires { this->options().num_replicas; }) {
      const auto& options = this->options();
      pass.length = static_cast<std::int64_t>(this->dataset_size());
      pass.replicas = options.num_replicas.value_or(-1);
      pass.rank = options.rank.value_or(-1);
      pass.epoch = this->epoch();
      pass.seed = options.seed;
      pass.shuffles = options.shuffle;
      pass.drops = options.drop_last;
    }
    return pass;
  }

  std::shared_ptr<SamplerLog> log_;  // null: not recorded
  About dataset_;
  bool has_begun_ = false;
};

template <class Model>
requires(!kIsSampler<Model> && !kDealsNoIndices<Model>) void Recorder::watch(const Model& model) {
  if (!is_on()) return;
  if constexpr (requires { model.is_empty(); }) {
    if (model.is_empty()) return watch_module(nullptr, {});
  }
  if constexpr (requires { model->logging_data().iteration; }) {
    const auto about = model->logging_data();
    const std::weak_ptr instance = model.ptr();
    watch_module(model->module, {.reduced_passes =
                                     [instance] {
                                       const auto is = instance.lock();
                                       return is ? is->logging_data().iteration : 0;
                                     },
                                 .broadcasts_buffers = about.broadcast_buffers,
                                 .finds_unused_parameters = about.find_unused_parameters});
  } else if constexpr (requires { model.ptr(); }) {
    watch_module(model.ptr(), {});
  } else {
    watch_module(model, {});
  }
}

template <class Sampler>
requires kIsSampler<Sampler> RecordedSampler<Sampler> Recorder::watch(Sampler sampler) {
  return {std::move(sampler), is_on() ? new_sampler_log() : nullptr, {}};
}

template <class Sampler, class Dataset>
requires kIsSampler<Sampler> RecordedSampler<Sampler> Recorder::watch(Sampler sampler,
                                                                      Dataset& dataset) {
  if (!is_on()) return watch(std::move(sampler));
  const std::optional<std::size_t> size = dataset.size();
  std::string fingerprint;
  if constexpr (std::is_same_v<Dataset, torch::data::datasets::TensorDataset>)
    if (size.value_or(0) > 0) fingerprint = fingerprint_of(dataset.get(0).data);
  return {std::move(sampler),
          new_sampler_log(),
          {size ? static_cast<std::int64_t>(*size) : -1, std::move(fingerprint)}};
}

}  // namespace lockstep
