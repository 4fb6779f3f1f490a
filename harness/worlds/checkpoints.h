// Checkpoints of a subject: files that hold a training, from which another one continues.
#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/torch.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

class Shard;

// Pointers to the parts of a training: what is saved, or what is loaded into. Null is left out.
struct TrainingState {
  torch::nn::Module* model = nullptr;
  torch::optim::Optimizer* optimizer = nullptr;  // SGD, Adam or AdamW
  Shard* sampler = nullptr;                      // one that the same subject made
  // How many samples of the sampler's epoch were used, where more were drawn.
  std::optional<int64_t> samples_used;
  int64_t* epoch = nullptr;
  int64_t* step = nullptr;
  std::vector<at::Generator> generators;
};

// The newest checkpoints of a path are kept, as path, path.1, ..., and the best as path.best too.
struct KeptCheckpoints {
  int keep_last = 1;
  bool is_best = false;
};

// Both are collective over `group`, whose ranks see one file of that path. They wait for a rank at
// most `timeout_ms`; nothing: as long as the group says.
struct Checkpoints {
  using Group = c10::intrusive_ptr<c10d::ProcessGroup>;
  std::function<void(const std::string& path, const Group& group, const TrainingState& state,
                     const KeptCheckpoints& kept, std::optional<int64_t> timeout_ms)>
      save;
  std::function<void(const std::string& path, const Group& group, const TrainingState& state,
                     std::optional<int64_t> timeout_ms)>
      load;
};

}  // namespace lockstep
