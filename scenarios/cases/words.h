// Enumerations that several shapes of cases have as fields.
#pragma once

#include "harness/base/dtype.h"
#include "harness/base/fields.h"

namespace lockstep::scenarios {

inline constexpr auto kSingleOrDouble = one_of<Dtype::float32, Dtype::float64>;
inline constexpr auto kFloating =
    one_of<Dtype::float32, Dtype::float64, Dtype::float16, Dtype::bfloat16>;

// exact: small whole numbers, so that nothing rounds; real: any numbers, mostly between -1 and 1.
enum class Values { exact, real };

enum class OptimizerKind { none, sgd, momentum, adam, adamw, amsgrad, adagrad, rmsprop };

// The parameters of a layer that do not learn.
enum class FrozenPart { none, weight, all };

}  // namespace lockstep::scenarios
