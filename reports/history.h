// The rows of a history as text: every rank's records, side by side. For `replay -v`.
#pragma once

#include "harness/history/history.h"

namespace lockstep::reports {

// One heading per moment and name, then one line per rank. Tensors are cut after `elements_most`
// elements. The last lines say how each rank ended.
std::string history_text(const History& history, size_t elements_most = 16);

}  // namespace lockstep::reports
