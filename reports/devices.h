// Sentences about worlds whose ranks share devices.
#pragma once

#include "harness/cases/result.h"

#include <string>

namespace lockstep::reports {

// "worlds of 2-4 share 1 GPU (NVIDIA H100 80GB HBM3)".
std::string shared_text(const SharedDevices& shared);

// For a result with such worlds, whose time means nothing; null for any other.
const SharedDevices* shared_by(const Result& result, const Run& run);

// For any setting on this backend; null if there is none.
const SharedDevices* shared_on(const std::string& backend, const Run& run);

}  // namespace lockstep::reports
