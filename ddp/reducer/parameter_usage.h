#pragma once

#include <cstddef>
#include <vector>

namespace lockstep {

// The parameters that this rank uses, by index: those that forwards reach, and that have brought
// a gradient since the last reduction. Pure bookkeeping, without torch. Local; does not block.
// Source: docs/semantics.md 2.5.
class ParameterUsage {
 public:
  explicit ParameterUsage(std::size_t count)
      : unreached_(count, false), reached_locally_(count, false), used_(count, false) {}

  // Called after each forward with gradients where unused parameters are found. `reached`: whether
  // a pass from its outputs could reach the parameter. `others_are_outstanding`: whether a
  // synchronised forward before it still waits for its backward.
  void forward_reaches(const std::vector<bool>& reached, bool synchronised,
                       bool others_are_outstanding);

  // A pass, local or reduced, has brought a gradient.
  void gradient_came(std::size_t index) { used_.at(index) = true; }

  // A reduced pass begins: forwards before it are no longer outstanding.
  void pass_is_reduced() { reached_locally_.assign(reached_locally_.size(), false); }

  // The averages are written: nothing has been used since.
  void averages_are_written() { used_.assign(used_.size(), false); }

  // No outstanding forward reaches it.
  bool is_unreached(std::size_t index) const { return unreached_.at(index); }
  bool was_used(std::size_t index) const { return used_.at(index); }

 private:
  std::vector<bool> unreached_;
  std::vector<bool> reached_locally_;  // by local forwards, since the last reduction
  std::vector<bool> used_;
};

}  // namespace lockstep
