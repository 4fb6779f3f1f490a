// The buffers of a ProgramSpec's models: what a buffer of a kind holds that has counted to a
// number.
#pragma once

#include "harness/verdict/diagnose.h"
#include "scenarios/programs/case.h"

#include <ATen/core/Tensor.h>

namespace lockstep::scenarios::programs {

at::Tensor buffer_of(BufferKind kind, int64_t count);

// In place, as a module's forward does it.
void add_to_buffer(at::Tensor& buffer, BufferKind kind, int64_t added);

// The buffer as it is recorded, and judged: of `special` ones every bit counts.
at::Tensor recorded_buffer(BufferKind kind, const at::Tensor& buffer);

// Explains a row of recorded `special` buffers in which every rank that differs holds a zero of the
// other sign.
std::optional<Diagnosis> other_bits_of_equal_numbers(const Difference& is);

}  // namespace lockstep::scenarios::programs
