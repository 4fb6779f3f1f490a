// Findings in JSON, as files of a run hold them. reports/findings/file.cpp reads them.
#pragma once

#include "harness/base/json.h"
#include "harness/verdict/verdict.h"

namespace lockstep {

// A place in a record; null for one that only words name.
Json json_of(const FindingPlace& place);

// A list of sentences and tables. A row has the texts of its cells, their numbers, null where there
// is none, and which of them are wrong, by column.
Json json_of(const Details& details);

}  // namespace lockstep
