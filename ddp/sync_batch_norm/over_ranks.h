#pragma once

#include "ddp/comm/communicator.h"

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

// The options of a layer of batch normalisation; equal on all ranks. Names as in PyTorch.
struct BatchNormSettings {
  std::int64_t num_features = 0;
  double eps = 0;
  std::optional<double> momentum;
  bool affine = true;
  bool track_running_stats = true;

  // The number of axes that an input may have, if the layer restricts it, and the layer's name in
  // errors about its inputs. Neither is compared.
  std::int64_t axes_min = 2;
  std::optional<std::int64_t> axes_max;
  std::string layer = "SyncBatchNorm";
};

// The tensors of a layer; undefined where its settings say so.
struct BatchNormTensors {
  at::Tensor weight, bias;
  at::Tensor running_mean, running_var, num_batches_tracked;
};

// Why there can be no layer with these settings, or nullopt.
std::optional<std::string> validation_error_in(const BatchNormSettings& settings);

// Why this input cannot be normalised, or nullopt. `name` is the layer's in its model, or empty.
std::optional<std::string> validation_error_in(const at::Tensor& input,
                                               const BatchNormSettings& settings,
                                               const std::string& name = "");

// Trains one layer over the batches of all ranks of a group: the common part of SyncBatchNorm and
// the layers that convert_sync_batchnorm() switches. A copy shares the communicator.
class BatchNormOverRanks {
 public:
  // Local. Throws UsageError for a group that cannot be used.
  BatchNormOverRanks(c10::intrusive_ptr<c10d::ProcessGroup> group,
                     std::optional<std::chrono::milliseconds> timeout);

  // The layer's name in its model, such as "features.1"; ranks compare it in each forward, which
  // distinguishes layers with equal settings.
  void set_name(std::string name) { name_ = std::move(name); }
  const std::string& name() const { return name_; }

  // The group it was given; a split of it may carry its collectives.
  const c10::intrusive_ptr<c10d::ProcessGroup>& group() const { return group_; }

  // From now on it trains over `group`, through `communicator`, as if it were new.
  void rebind(c10::intrusive_ptr<c10d::ProcessGroup> group, Communicator communicator);

  // See Communicator::watch.
  void watch(std::shared_ptr<FailureNotice> notice) { communicator_->watch(std::move(notice)); }

  // One forward in training. Collective, blocks; SyncBatchNorm's forward says what it does and
  // throws. An invalid input throws on every rank.
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

// A module that can train over ranks: SyncBatchNorm and the layers of batch_norm.h. A second base
// besides torch::nn::Module, found by dynamic_cast. Everything is Local.
class LayerOverRanks {
 public:
  virtual ~LayerOverRanks() = default;

  // The current settings.
  virtual BatchNormSettings settings() const = 0;

  bool trains_over_ranks() const { return over_ranks_.has_value(); }

  // Null if it trains alone. Valid until the next train_over() or train_alone().
  BatchNormOverRanks* over_ranks() { return over_ranks_ ? &*over_ranks_ : nullptr; }

  // Takes effect at the next forward, under this name, and replaces any group of before. Throws
  // UsageError as the constructor of BatchNormOverRanks does.
  virtual void train_over(c10::intrusive_ptr<c10d::ProcessGroup> group,
                          std::optional<std::chrono::milliseconds> timeout, std::string name);
  void train_alone() { over_ranks_.reset(); }

  // Sets the name if it trains over ranks and has none.
  void name_if_nameless(const std::string& name);

 protected:
  LayerOverRanks() = default;
  LayerOverRanks(const LayerOverRanks&) = default;
  LayerOverRanks& operator=(const LayerOverRanks&) = default;

  std::optional<BatchNormOverRanks> over_ranks_;  // absent if it trains alone or has no group
};

}  // namespace lockstep
