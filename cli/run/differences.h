// Where Lockstep differs from PyTorch on purpose, docs/semantics.md 0, and which scenarios judge
// it.
#pragma once

#include "reports/matrix.h"

namespace lockstep::cli {

std::vector<reports::Difference> deliberate_differences();

}  // namespace lockstep::cli
