// The usual cause of what a finding shows, in PyTorch's terms: what a user looks for first in their
// own program. Said only where the finding's pattern, or the exception that it quotes, is known.
#pragma once

#include "harness/verdict/trace.h"
#include "harness/verdict/verdict.h"

namespace lockstep {

// A short sentence without a full stop: "no sampler.set_epoch(epoch) before each epoch". Empty:
// none is known, or the finding's details state the cause itself.
std::string usual_cause(const Finding& finding);

// True if one of its details is a Cause.
bool states_its_cause(const Finding& finding);

// The same of an exception of LibTorch or PyTorch.
std::string usual_cause_of_exception(const std::string& what);

// The same of ranks whose collectives part there, in this history; empty where they do not.
std::string usual_cause_of(const std::optional<FirstDivergence>& point, const History& history);

// The part of Gloo that lacks what a rank wanted of it in the collective in which it threw, so that
// the backend and not the subject fails: "Gloo's broadcast carries no int16, ...". Empty: no such
// limit is known.
std::string backend_limit(const Collective& one);

}  // namespace lockstep
