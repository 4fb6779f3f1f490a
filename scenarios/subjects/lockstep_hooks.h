// Lockstep's communication hooks, and hooks of a program's own, for the subject.
#pragma once

#include "ddp/communication_hook.h"
#include "harness/worlds/subject.h"

#include <memory>

namespace lockstep {

// The hook that a case wants; `group` is the one that the model is wrapped over.
std::shared_ptr<CommunicationHook> hook_of(const HookOptions& options, const Group& group);

std::shared_ptr<CommunicationHook> hook_of(const LocalSgdOptions& options, const Group& group);

at::Tensor left_out(const CommunicationHook& hook, const at::Tensor& parameter);

}  // namespace lockstep
