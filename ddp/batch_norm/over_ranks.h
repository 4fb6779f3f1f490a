#pragma once

#include "ddp/communicator.h"

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace lockstep {

struct BatchAgreement;
struct Normaliser;

// What a layer of batch normalisation was made with; equal on all ranks. Names as in PyTorch.
struct BatchNormSettings {
  std::int64_t num_features = 0;
  double eps = 0;
  std::optional<double> momentum;
  bool affine = true;
  bool track_running_stats = true;

  // How many axes an input may have, where the layer is for some only; and what the layer is called
  // in sentences about its inputs. Neither is compared.
  std::int64_t axes_min = 2;
  std::optional<std::int64_t> axes_max;
  std::string layer = "SyncBatchNorm";
};

// What it has; undefined where its settings say so.
struct BatchNormTensors {
  at::Tensor weight, bias;
  at::Tensor running_mean, running_var, num_batches_tracked;
};

// Why there can be no layer with these settings, if there can be none.
std::optional<std::string> obstacle_in(const BatchNormSettings& settings);

// Why this input cannot be normalised, if it cannot. `name` is the layer's in its model, or empty.
std::optional<std::string> obstacle_in(const at::Tensor& input, const BatchNormSettings& settings,
                                       const std::string& name = "");

// Training of one layer over the batches of all ranks of a group: what SyncBatchNorm and the layers
// that convert_sync_batchnorm() switches have in common. A copy shares the way to the group.
class BatchNormOverRanks {
 public:
  // Local. Throws UsageError for a group that cannot be used.
  BatchNormOverRanks(c10::intrusive_ptr<c10d::ProcessGroup> group,
                     std::optional<std::chrono::milliseconds> timeout);

  // Which layer of its model this is, such as "features.1"; ranks compare it in each forward, so
  // that layers with equal settings are told apart.
  void set_name(std::string name) { name_ = std::move(name); }
  const std::string& name() const { return name_; }

  // The group it was given, whichever part of it carries its collectives.
  const c10::intrusive_ptr<c10d::ProcessGroup>& group() const { return group_; }

  // From now on it trains over `group`, by way of `communicator`, as if it were new.
  void go_over_to(c10::intrusive_ptr<c10d::ProcessGroup> group, Communicator communicator);

  // See Communicator::watch.
  void watch(std::shared_ptr<FailureNotice> notice) { communicator_->watch(std::move(notice)); }

  // One forward in training. Collective, blocks; SyncBatchNorm's forward says what it does and
  // throws. An input that does not fit is for every rank to hear.
  at::Tensor forward(const at::Tensor& input, const BatchNormSettings& settings,
                     const BatchNormTensors& tensors);

 private:
  Normaliser from_statistics(const BatchAgreement& agreed, const BatchNormSettings& settings,
                             const BatchNormTensors& tensors);
  Normaliser from_device(const at::Tensor& values, const BatchAgreement& agreed,
                         const BatchNormSettings& settings, const BatchNormTensors& tensors);

  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  std::shared_ptr<Communicator> communicator_;
  std::string name_;
  std::int64_t forward_count_ = 0;
};

// A module that can train over ranks: SyncBatchNorm, and what batch_norm.h has. A base beside
// torch::nn::Module, to be found by dynamic_cast. Everything is Local.
class LayerOverRanks {
 public:
  virtual ~LayerOverRanks() = default;

  // As they are now.
  virtual BatchNormSettings settings() const = 0;

  bool trains_over_ranks() const { return over_ranks_.has_value(); }

  // Null where it trains alone. Until the next train_over() or train_alone().
  BatchNormOverRanks* over_ranks() { return over_ranks_ ? &*over_ranks_ : nullptr; }

  // From the next forward on, under this name; in place of what was before. Throws UsageError as
  // the constructor of BatchNormOverRanks does.
  virtual void train_over(c10::intrusive_ptr<c10d::ProcessGroup> group,
                          std::optional<std::chrono::milliseconds> timeout, std::string name);
  void train_alone() { over_ranks_.reset(); }

  // Gives a name to one that trains over ranks and has none.
  void name_if_nameless(const std::string& name);

 protected:
  LayerOverRanks() = default;
  LayerOverRanks(const LayerOverRanks&) = default;
  LayerOverRanks& operator=(const LayerOverRanks&) = default;

  std::optional<BatchNormOverRanks> over_ranks_;  // absent where it trains alone, or not at all
};

}  // namespace lockstep
