// The rows of a history as text: what every rank recorded, side by side. For `replay -v`.
#pragma once

#include "harness/core/history.h"

namespace lockstep::reports {

// One heading a moment and name, then a line a rank. Tensors are cut after `elements_most`
// elements. How each rank ended comes last.
std::string history_text(const History& history, size_t elements_most = 16);

}  // namespace lockstep::reports
