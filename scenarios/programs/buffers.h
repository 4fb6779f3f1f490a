// The buffers of a ProgramSpec's models: what a buffer of a word holds that has counted to a
// number.
#pragma once

#include "harness/verdict/diagnose.h"

#include <ATen/core/Tensor.h>

#include <string>

namespace lockstep::scenarios::programs {

at::Tensor buffer_of(const std::string& word, int64_t count);

// In place, as a module's forward does it.
void add_to_buffer(at::Tensor& buffer, const std::string& word, int64_t added);

// The buffer as it is recorded, and judged: of `special` ones every bit counts.
at::Tensor recorded_buffer(const std::string& word, const at::Tensor& buffer);

// Explains a row of recorded `special` buffers in which every rank that differs holds a zero of the
// other sign.
std::optional<Diagnosis> other_bits_of_equal_numbers(const Difference& is);

}  // namespace lockstep::scenarios::programs
