// The options of a case as PyTorch's DistributedDataParallel takes them.
#pragma once

#include "harness/pytorch/loaded.h"
#include "harness/worlds/subject.h"

namespace lockstep {

// Throws Unsupported. For a user's file too; options that only later releases have are refused in
// Python.
void refuse_what_pytorch_lacks(const WrapOptions& options);

// A callback that waits takes a thread, and callbacks run on Gloo's own, of which worlds have one.
void refuse_waits_in_callbacks(const WrapOptions& options, const Group& group);

pytorch::Values keywords_of(const WrapOptions& options);
pytorch::Values values_of(const HookOptions& options);

}  // namespace lockstep
