#pragma once

#include "ddp/join.h"

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/torch.h>

#include <string>
#include <vector>

namespace lockstep::testing {

constexpr JoinOptions kThrowing{.throw_on_early_termination = true};

// Rank r gives 3 (r + 1) times `factor`, of which the average is exact: 6 in a world of three, 4.5
// in one of two.
inline double own(const c10::intrusive_ptr<c10d::ProcessGroup>& group, double factor = 1.0) {
  return 3 * factor * (group->getRank() + 1);
}

// The count of rank r is at position r.
inline int count_of(const std::vector<int>& inputs,
                    const c10::intrusive_ptr<c10d::ProcessGroup>& group) {
  return inputs[static_cast<std::size_t>(group->getRank())];
}

// The sentence of an UnevenInputsError; `who` and `others` say "rank 1 has", "ranks 0 and 2 have".
inline std::string uneven(const std::string& who, int forwards, const std::string& others) {
  return "inputs are uneven: " + who + " none left after " + std::to_string(forwards) +
         (forwards == 1 ? " forward" : " forwards") + " of the join, and " + others +
         " more; every rank stops here (throw_on_early_termination)";
}

// One weight times the input, which a negative one makes throw.
struct ThrowsBelowZero : torch::nn::Module {
  at::Tensor weight = register_parameter("weight", torch::ones({1}, at::kDouble));
  at::Tensor forward(double factor) {
    if (factor < 0) throw std::runtime_error("a batch that cannot be read");
    return weight * factor;
  }
};

}  // namespace lockstep::testing
