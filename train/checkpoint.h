#pragma once

#include <ATen/core/Generator.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace torch::nn {
class Module;
}
namespace torch::optim {
class Optimizer;
}

namespace lockstep {

class DistributedSampler;

// Pointers to the parts of a checkpoint: what is saved, and what is loaded into. Null or empty is
// left out; a file may hold more than is loaded.
struct Checkpoint {
  // Parameters and buffers, by their names: a bare module, or a DistributedDataParallel's (&*ddp).
  // The file has them without the prefix "module.", and either is loaded from a file with it or
  // without it.
  torch::nn::Module* model = nullptr;

  // SGD, Adam or AdamW: state and options, learning rate included, by the parameters' places.
  torch::optim::Optimizer* optimizer = nullptr;

  // Epoch and position. All ranks have drawn equally many samples. `samples_used`: how many of this
  // epoch's samples were used, where a data loader with workers has drawn more
  // (DistributedSampler::save).
  DistributedSampler* sampler = nullptr;
  std::optional<std::size_t> samples_used;

  std::int64_t* epoch = nullptr;
  std::int64_t* step = nullptr;

  // Generators, each rank's own: torch::globalContext().defaultGenerator(torch::kCPU), from which
  // dropout draws, and those of devices. Equally many on all ranks.
  std::vector<at::Generator> generators;
};

struct SaveOptions {
  // How many checkpoints to keep, at least 1: `path`, the one before as `path`.1, and so on.
  int keep_last = 1;

  // Keep this one as `path`.best too. Equal on all ranks: decide by a metric that was all-reduced.
  bool is_best = false;

  // Longest wait for rank 0 to have written. Unset: that of the group.
  std::optional<std::chrono::milliseconds> timeout;
};

struct LoadOptions {
  // Longest wait for the slowest rank to have read. Unset: that of the group.
  std::optional<std::chrono::milliseconds> timeout;
};

// Rank 0 writes what `checkpoint` points to, and every rank returns when that is on disk. The file
// is written beside `path`, as `path`.partial, and renamed when the disk has all of it: whatever
// happens in between, `path` is the checkpoint before or this one, whole. A process that is killed
// may leave `path`.partial, which the next call overwrites. One world at a time saves to a path.
// A link at `path` is replaced, and what it names stays; a device, a pipe, a socket or a folder
// there, or where an older or the best one goes, is refused before anything is written.
//
// Python's torch.load(path, weights_only=True) reads it: {'model': state_dict, 'optimizer':
// state_dict, 'epoch': int, 'step': int, 'sampler': dict, 'generators': [rank][generator],
// 'lockstep': {'format': 1}}. Records have checksums.
//
// Collective; blocks. Throws UsageError for a null group; DisagreementError, with the same sentence
// on every rank, where the ranks hold different things or progress, an optimizer is of another
// class, or rank 0 cannot write, which leaves the file before as it was; and CommunicationError.
// Source: the checkpoint of PyTorch's DDP tutorial (rank 0 saves, barrier, all load).
void save_checkpoint(const std::string& path, const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                     const Checkpoint& checkpoint, const SaveOptions& options = {});

// Every rank reads `path` into what `checkpoint` points to, on whatever device each tensor is
// there. All or nothing: the file is read and compared with what it is to be loaded into on every
// rank, and only if all agree anything is changed. Before or after the module is wrapped.
//
// Besides save_checkpoint()'s, the file may be Python's torch.save(model.state_dict()) or
// torch.save({'model': ..., 'optimizer': ..., 'epoch': ...}), also with the keys model_state_dict
// and optimizer_state_dict. Optimizers have PyTorch's own layout.
//
// Collective; blocks. Throws UsageError for a null group; DisagreementError, with the same sentence
// on every rank, where a file is missing, torn, damaged, of another kind or of a newer Lockstep;
// where it lacks what is to be loaded; where entries of the model are missing, too many, or of
// another shape or dtype; where the optimizer or the sampler does not fit; where ranks read
// different files; and CommunicationError.
void load_checkpoint(const std::string& path, const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                     const Checkpoint& checkpoint, const LoadOptions& options = {});

}  // namespace lockstep
