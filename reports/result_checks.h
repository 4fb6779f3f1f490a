// Checks that the fields of one result in a run.json agree with each other. Each check throws
// FieldError, with the path of the field that disagrees; `at` is the result as it was read.
#pragma once

#include "harness/cases/result.h"
#include "reports/json_at.h"

namespace lockstep::reports {

// The field 'signature' is that of the verdict and its first finding.
void check_signature(const At& at, const Verdict& verdict);

// A result of this kind can have this verdict.
void check_verdict(const At& at, Result::Kind kind, const Verdict& verdict);

// 'shares_devices' is there, and says it, where the run's devices were shared by this result.
void check_sharing(const At& at, const Result& result, const Run& run);

// For a result with all its fields: its signatures, its counts and its kind agree.
void check_agreement(const At& at, const Result& result);

}  // namespace lockstep::reports
