// The ranks of a join in the course of its steps.
#pragma once

#include "scenarios/programs/actions.h"

namespace lockstep::scenarios::programs {

class Joined {
 public:
  // `join`: the action with which it begins.
  explicit Joined(const Action& join);

  int model() const { return join_.model; }

  // True if `step` can run in it: what would begin the replica anew cannot, except for a change of
  // the group while all ranks have inputs; nor can steps of other models where ranks act at
  // different times.
  bool admits(const Step& step, int model) const;

  // Writes which ranks act in an action. Before a forward of its model some may run out of inputs.
  void enter(Action& action);

  // From now on these ranks train together.
  void regroup(const std::vector<std::vector<int>>& parts) { join_.parts = parts; }

  // The action that ends it, as step number `number`.
  Action finish(int number) const;

 private:
  bool throws() const { return join_.step.uneven == JoinKind::throws; }
  int forwards_of(int rank) const;

  Action join_;
  int forwards_made_ = 0;
  std::vector<bool> is_out_, is_ended_, is_stopped_;
};

}  // namespace lockstep::scenarios::programs
