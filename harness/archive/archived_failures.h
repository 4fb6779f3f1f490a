// The failures that earlier runs saved (harness/archive/archive.h).
#pragma once

#include "harness/cases/scenario.h"

#include <filesystem>

namespace lockstep {

struct ArchivedFailures {
  std::vector<Case> cases;  // by file name, with every field written out
  // A sentence on each file whose case does not meet the precondition of the scenario: it proves
  // nothing, and is not among `cases`.
  std::vector<std::string> refused;
};

// Those of one scenario below `root`. Throws FieldError, which names the file, for one that is no
// case of the scenario. A folder that cannot be listed has none.
ArchivedFailures archived_failures(const std::filesystem::path& root, const Scenario& scenario);

}  // namespace lockstep
