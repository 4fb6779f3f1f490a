// What a run says of worlds whose ranks share devices.
#pragma once

#include "harness/core/result.h"

#include <string>

namespace lockstep::reports {

// "worlds of 2-4 share 1 GPU (NVIDIA H100 80GB HBM3)".
std::string shared_text(const SharedDevices& shared);

// Of a result with such worlds, in which the time it took says nothing; null of any other.
const SharedDevices* shared_by(const Result& result, const Run& run);

// Of any setting on this backend; null if there is none.
const SharedDevices* shared_on(const std::string& backend, const Run& run);

}  // namespace lockstep::reports
