#pragma once

#include "ddp/communicator.h"

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace lockstep {

struct BatchStatistics;

// What a layer of batch normalisation was made with; equal on all ranks. Names as in PyTorch.
struct BatchNormSettings {
  std::int64_t num_features = 0;
  double eps = 0;
  std::optional<double> momentum;
  bool affine = true;
  bool track_running_stats = true;
};

// What it has; undefined where its settings say so.
struct BatchNormTensors {
  at::Tensor weight, bias;
  at::Tensor running_mean, running_var, num_batches_tracked;
};

// Why this input cannot be normalised, if it cannot; `layer` is what the sentence calls the layer.
std::optional<std::string> obstacle_in(const at::Tensor& input, std::int64_t num_features,
                                       const std::string& layer = "SyncBatchNorm");

// Training of one layer over the batches of all ranks of a group: what SyncBatchNorm and the layers
// that convert_sync_batchnorm() switches have in common. A copy shares the way to the group.
class BatchNormOverRanks {
 public:
  // Local. Throws UsageError for settings outside their range or a group that cannot be used.
  BatchNormOverRanks(BatchNormSettings settings, c10::intrusive_ptr<c10d::ProcessGroup> group,
                     std::optional<std::chrono::milliseconds> timeout);

  // Which layer of its model this is, such as "features.1"; ranks compare it in each forward.
  void set_name(std::string name) { name_ = std::move(name); }

  // One forward in training. Collective, blocks; SyncBatchNorm's forward says what it does and
  // throws.
  at::Tensor forward(const at::Tensor& input, const BatchNormTensors& tensors);

 private:
  void move_running_stats(const BatchStatistics& whole, const BatchNormTensors& tensors) const;

  BatchNormSettings settings_;
  std::shared_ptr<Communicator> communicator_;
  std::string name_;
  std::int64_t forward_count_ = 0;
};

// Throws UsageError for settings outside their range.
void check(const BatchNormSettings& settings);

}  // namespace lockstep
