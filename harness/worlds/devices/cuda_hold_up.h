#pragma once

#include <c10/core/Stream.h>

#include <chrono>

namespace lockstep {

// Keeps `stream`, of a GPU, busy for about `time` before what is submitted to it next, so that
// results a program forgot to wait for are really late. Local; the host does not wait. Throws
// std::runtime_error unless LibTorch's CUDA part, which this neither links nor loads, is in this
// process.
void hold_up_cuda(const c10::Stream& stream, std::chrono::milliseconds time);

}  // namespace lockstep
