#include "scenarios/programs/environment.h"

#include <torch/torch.h>

namespace lockstep::scenarios::programs {

Environment::Environment(const EnvironmentSpec& wanted)
    : default_dtype_(at::get_default_dtype()),
      flushes_denormals_(wanted.flushes_denormals),
      is_deterministic_(at::globalContext().deterministicAlgorithms()),
      threads_(wanted.threads) {
  at::set_default_dtype(c10::scalarTypeToTypeMeta(scalar_type(wanted.default_dtype)));
  if (flushes_denormals_) at::globalContext().setFlushDenormal(true);
  at::globalContext().setDeterministicAlgorithms(wanted.is_deterministic, /*warn_only=*/false);
}

Environment::~Environment() {
  at::set_default_dtype(default_dtype_);
  if (flushes_denormals_) at::globalContext().setFlushDenormal(false);
  at::globalContext().setDeterministicAlgorithms(is_deterministic_, /*warn_only=*/false);
}

}  // namespace lockstep::scenarios::programs
