// The environment of a program on one rank.
#pragma once

#include "scenarios/cases/tensors.h"
#include "scenarios/programs/case.h"

#include <ATen/core/Tensor.h>

namespace lockstep::scenarios::programs {

// Sets it, and sets back what was there before when it ends.
class Environment {
 public:
  explicit Environment(const EnvironmentSpec& wanted);
  ~Environment();
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  const caffe2::TypeMeta default_dtype_;
  const bool flushes_denormals_;
  const bool is_deterministic_;
  const IntraOpThreads threads_;
};

}  // namespace lockstep::scenarios::programs
