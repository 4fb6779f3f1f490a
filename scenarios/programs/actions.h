// The steps of a ProgramSpec that run.
#pragma once

#include "scenarios/programs/case.h"

namespace lockstep::scenarios::programs {

// A step that runs on some rank at least; of a step of all models, what it is to one of them.
struct Action {
  int number = 0;  // of its step in the case
  Step step;
  int model = 0;
  std::vector<int> graphs;       // backward: the numbers of the forwards' steps
  std::vector<int> closed;       // those whose graphs it frees
  bool is_synchronised = false;  // forward: outside of no_sync; backward: through such a forward
  bool is_local = false;         // inside guards of its model
  bool by_rank = false;          // of all models: rank r begins with number r
  // forward: parameters were frozen or unfrozen, without a report to the replica.
  bool is_refused = false;
  bool uses_first =
      true;  // forward, bare: forward uses the first parameter, and not the loss alone
  // By rank. In a join a rank that is out of inputs does nothing until the join's end; where that
  // stops all ranks, the next forward of those that have inputs throws; finish: it has thrown.
  std::vector<bool> acts, is_stopped;
  // join, finish: the ranks that train together.
  std::vector<std::vector<int>> parts;
  Step join;  // finish: how the join began
  // finish, by rank: it was out of inputs; its join has ended by throwing.
  std::vector<bool> is_out, is_ended;
};

// The steps that mean something where they stand: a backward needs an open graph, a forward needs a
// replica, a synchronised one uses every parameter unless options allow otherwise, and what
// docs/semantics.md calls misuse is left out. So any list of steps is a program, and the rest of
// a list from which one is dropped. A join without an end gets one after all steps.
std::vector<Action> actions_of(const ProgramSpec& c);

}  // namespace lockstep::scenarios::programs
