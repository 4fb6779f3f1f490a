// liblockstep_pytorch.so gives the harness these: PyTorch's Python classes, as values of LibTorch.
// The library holds the interpreter; nothing here names Python. Every function may be called in any
// thread; none may hold the interpreter's lock.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace lockstep::pytorch {

using Group = c10::intrusive_ptr<c10d::ProcessGroup>;
using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;
using Value =
    std::variant<bool, int64_t, double, std::string, std::vector<double>, std::vector<std::string>>;
using Values = std::map<std::string, Value>;

// PyTorch, or the user's file, has no such option or no such part.
struct Refused : std::runtime_error {
  using runtime_error::runtime_error;
};

// A Python exception: its type, its text, and the innermost line of Python that raised it.
struct PythonError : std::runtime_error {
  using runtime_error::runtime_error;
};

// A model of the harness, of which Python makes a module. `shape` is that of forward's output:
// "one" tensor, a "list", "nested" in a dictionary, or "opaque", in an object of a class of its
// own; the tensors in it are listed in any case.
struct Model {
  std::function<NamedTensors()> parameters, buffers;
  std::vector<std::string> sparse;  // its layers with sparse gradients, by path
  std::function<bool()> is_training;
  std::function<std::vector<at::Tensor>(const at::Tensor& input, const std::string& shape)> forward;
};

struct WrapValues {
  std::string file;  // whose wrap() it is; empty: PyTorch's DistributedDataParallel
  Values keywords;   // of DistributedDataParallel
  std::vector<std::string> ignored, delayed;
  std::string delayed_until;
  Values hook;  // empty: none
};

struct Bucket {
  int64_t elements = 0;
  std::vector<std::string> parameters;
};

// Plain SGD with learning rate 1, and torch.distributed's averaging of its parameters.
class AveragedSgd {
 public:
  virtual ~AveragedSgd() = default;
  virtual void step() = 0;
  virtual std::string save() = 0;
  virtual void load(const std::string& saved) = 0;
};

// One of torch.optim's param groups.
struct ParamGroup {
  std::vector<at::Tensor> parameters;
  Values options;
};

class ZeroRedundancyOptimizer {
 public:
  virtual ~ZeroRedundancyOptimizer() = default;
  virtual void step() = 0;
  virtual void add_group(const ParamGroup& group) = 0;
  virtual void set_learning_rate(size_t group, double rate) = 0;
  virtual std::string save(int to) = 0;
  virtual void load(const std::string& saved) = 0;
  virtual int64_t elements_of_state() = 0;
};

class Wrapped {
 public:
  virtual ~Wrapped() = default;
  virtual std::vector<at::Tensor> forward(const at::Tensor& input, const std::string& shape) = 0;
  virtual void backward(const at::Tensor& loss) = 0;
  // Until what it returns is destroyed.
  virtual std::shared_ptr<void> no_sync() = 0;
  // `optimizer` may be null.
  virtual void join(const std::string& kind, const std::function<void()>& steps,
                    ZeroRedundancyOptimizer* optimizer) = 0;
  virtual void update_process_group(const Group& group) = 0;
  virtual void finish() = 0;
  // The part of a parameter's gradients that PowerSGD left out so far; undefined: it keeps nothing.
  virtual at::Tensor left_out(const at::Tensor& parameter) = 0;
  virtual std::vector<Bucket> buckets() = 0;
};

class Sharded {
 public:
  virtual ~Sharded() = default;
  virtual void set_epoch(int64_t epoch) = 0;
  virtual std::vector<int64_t> draw() = 0;
};

// A layer that normalises, of Python.
class Layer {
 public:
  virtual ~Layer() = default;
  virtual NamedTensors parameters() = 0;
  virtual NamedTensors buffers() = 0;
  virtual at::Tensor forward(const at::Tensor& input, bool is_training) = 0;
};

struct Plugin {
  // Once, first. The interpreter of the environment in `folder`, its imports and a first
  // DistributedDataParallel: seconds. Starts no thread.
  void (*start)(const std::string& folder);
  std::string (*version)();
  // A simulated rank gives the interpreter's lock back as another one runs, if it holds it, and
  // takes it again: what the first returns goes to the second; null: it did not hold it.
  void* (*release_lock)();
  void (*take_lock)(void* held);

  // Runs the Python object `body` in this simulated rank: body.run(rank, group), with the group of
  // all ranks, and body.begin(rank, generator) and body.end(rank, generator) around each of the
  // rank's turns, with the default generator of the rank. Throws PythonError for what run() raises.
  void (*run_rank)(void* body, int rank, const Group&);

  // Runs a user's file, before anything forks. Returns what is wrong with it; empty: its parts are
  // there from now on.
  std::string (*open)(const std::string& file);
  // Why the file does not define this part; empty: it does.
  std::string (*lacks)(const std::string& file, const std::string& part);

  std::unique_ptr<Wrapped> (*wrap)(const Model&, const Group&, const WrapValues&);
  std::unique_ptr<AveragedSgd> (*averaged_sgd)(const std::vector<at::Tensor>& parameters,
                                               const Group&, const Values& options);
  // `optimizer` is a class of torch.optim.
  std::unique_ptr<ZeroRedundancyOptimizer> (*zero_redundancy_optimizer)(
      const std::string& optimizer, const std::vector<ParamGroup>&, const Group&);
  // An empty file: PyTorch's.
  std::unique_ptr<Sharded> (*shard)(const std::string& file, int64_t length, int rank, int size,
                                    const Values&);
  std::unique_ptr<Layer> (*sync_batch_norm)(const std::string& file, int64_t channels,
                                            const Group& group, const Values&);
  // Why SyncBatchNorm does not run on the CPU, in PyTorch's words; empty: it does.
  std::string (*refusal_of_sync_batch_norm)(const Group&);
  void (*all_reduce)(const at::Tensor&, const std::string& operation, const Group&);
  std::vector<std::vector<int64_t>> (*random_split)(int64_t size, const std::vector<double>& shares,
                                                    uint64_t seed);
};

inline constexpr char kPluginSymbol[] = "lockstep_pytorch_plugin";
// A string: of which version of this header the library was built. To be asked first.
inline constexpr char kVersionSymbol[] = "lockstep_pytorch_plugin_version";

}  // namespace lockstep::pytorch
