// The failures that earlier runs saved (harness/engine/archive.h).
#pragma once

#include "harness/core/scenario.h"

#include <filesystem>

namespace lockstep {

// Those of one scenario below `root`, by file name, with every field written out. Throws
// FieldError, which names the file, for one that is no case of the scenario. A folder that cannot
// be listed has none.
std::vector<Case> archived_failures(const std::filesystem::path& root, const Scenario& scenario);

}  // namespace lockstep
