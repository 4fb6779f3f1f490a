// The usual cause of what a finding shows, in PyTorch's terms: what a user looks for first in their
// own program. Said only where the finding's pattern, or the exception that it quotes, is known.
#pragma once

#include "harness/verdict/verdict.h"

namespace lockstep {

// A short sentence without a full stop: "no sampler.set_epoch(epoch) before each epoch". Empty:
// none is known, or the finding's details state the cause itself.
std::string usual_cause(const Finding& finding);

// The same of an exception of LibTorch or PyTorch.
std::string usual_cause_of_exception(const std::string& what);

// The part of a backend that lacks what a case needs, where that and not the subject fails:
// "Gloo carries no tensor of this dtype". Empty: no such limit is known to have failed.
std::string backend_limit(const Finding& finding);

}  // namespace lockstep
