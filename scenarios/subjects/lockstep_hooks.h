// Lockstep's communication hooks, and hooks of a program's own, for the subject.
#pragma once

#include "ddp/communication_hook.h"
#include "harness/worlds/subject.h"

#include <memory>
#include <optional>
#include <string>

namespace lockstep {

// The hook that a case wants; `group` is the one that the model is wrapped over.
std::shared_ptr<CommunicationHook> hook_of(const HookOptions& options, const Group& group);

std::shared_ptr<CommunicationHook> hook_of(const LocalSgdOptions& options, const Group& group);

// As Replica has them, of the hooks that hook_of() makes.
at::Tensor left_out(CommunicationHook& hook, const at::Tensor& parameter);
std::optional<Replica::Sent> sent(CommunicationHook& hook);
std::string save_hook(CommunicationHook& hook, const torch::nn::Module& module);
void load_hook(CommunicationHook& hook, const torch::nn::Module& module, const std::string& saved);

}  // namespace lockstep
