// How a replica scales gradients in the course of a ProgramSpec; docs/semantics.md 2.3 and 2.4.
#pragma once

#include "reference/replicas.h"
#include "scenarios/programs/actions.h"

namespace lockstep::scenarios::programs {

// The scaling of one model's gradients on all ranks: which gradients are views that a replica has
// kept, and which are new.
class FollowedScaling {
 public:
  FollowedScaling(const ProgramSpec& c, std::vector<bool> is_sparse);

  // How the average of this backward's end scales a gradient.
  reference::Scaling of(const Action& backward, int rank, size_t p) const;

  // Ranks have followed the action, as `replicas` have.
  void follow(const Action& action, const reference::Replicas& replicas);

 private:
  enum class Gradient { is_new, is_view, is_unknown };
  Gradient after(const Action& action, int rank, size_t p,
                 const reference::Replicas& replicas) const;

  const ProgramSpec& c_;
  const std::vector<bool> is_sparse_;
  std::vector<std::vector<Gradient>> gradients_;  // by rank and parameter
};

}  // namespace lockstep::scenarios::programs
