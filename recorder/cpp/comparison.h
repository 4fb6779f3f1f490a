// The parts that a comparison with one process needs besides digests: values, and a run that was
// moved.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace lockstep {

struct ComparisonOptions {
  int values_steps = 0;  // steps whose values are recorded
  int perturbed = 0;     // above 0: parameters are moved in the direction drawn from it

  // Those of LOCKSTEP_RECORD_VALUES and LOCKSTEP_RECORD_PERTURB. Throws std::runtime_error for a
  // text that is no whole number.
  static ComparisonOptions of_environment();
};

// Where such a run is recorded: `folder`, or perturbed-N in it, for which `folder` is made.
std::filesystem::path folder_of(const ComparisonOptions& options,
                                const std::filesystem::path& folder);

// The elements of all that are defined, one tensor after the other.
std::vector<std::byte> elements_of(std::span<const at::Tensor> tensors);

// Moves each element one unit in the last place up or down, as drawn; zeros stay.
void move_by_one_place(const at::Tensor& parameter, const at::Generator& generator);

}  // namespace lockstep
