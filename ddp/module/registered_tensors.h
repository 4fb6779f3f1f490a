#pragma once

#include "ddp/errors.h"
#include "ddp/options.h"

#include <torch/nn/module.h>

#include <optional>
#include <string>
#include <vector>

namespace lockstep {

// The buffers are no longer those of the construction: only wrapping the module again helps.
class ChangedBuffers : public UsageError {
 public:
  using UsageError::UsageError;
};

// The first buffer that was registered or removed, by their names, and what helps; nothing if they
// are equal.
std::optional<std::string> changed_buffer(const std::vector<std::string>& before,
                                          const std::vector<std::string>& now);

// The parameters and buffers of a module as an instance knows them, without the ignored ones: a
// parameter that is registered later would start and train apart on each rank. Everything is Local.
class RegisteredTensors {
 public:
  RegisteredTensors(const torch::nn::Module& module, const DistributedDataParallelOptions& options);

  // The instance has taken over the module's parameters of now. Its buffers stay those of the
  // construction.
  void take_parameters(const torch::nn::Module& module);

  // Throws UsageError, which names the first parameter that was registered, removed or replaced
  // since, and what helps; ChangedBuffers for a buffer that was registered or removed. One may be
  // replaced: it is looked up anew each time.
  void require_unchanged(const torch::nn::Module& module, int rank) const;

 private:
  struct Parameter {
    std::string name;
    const at::TensorImpl* identity;
    bool operator==(const Parameter&) const = default;
  };
  // All of a module's tensors, without the names of modules: each synchronised forward looks.
  struct Look {
    std::vector<const at::TensorImpl*> parameters;
    std::vector<std::string> buffers;
    bool operator==(const Look&) const = default;
  };
  static Look look_at(const torch::nn::Module& root);
  bool is_ignored(const std::string& name) const;
  std::optional<std::string> changed_parameter(const std::vector<Parameter>& now) const;
  std::vector<Parameter> parameters_of(const torch::nn::Module& module) const;
  std::vector<std::string> buffers_of(const torch::nn::Module& module) const;

  const std::vector<std::string> ignored_;
  std::vector<Parameter> parameters_;
  const std::vector<std::string> buffers_;
  Look seen_;  // when these were taken
};

}  // namespace lockstep
