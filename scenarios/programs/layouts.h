// How gradients lie in memory in the course of a ProgramSpec; docs/semantics.md 2.3 and 2.4.
#pragma once

#include "harness/rank/rank_context.h"
#include "harness/verdict/compare.h"
#include "scenarios/programs/expected/follow.h"

namespace lockstep::scenarios::programs {

// True if ranks record it behind this action.
bool shows_layouts(const Action& action);

// Records the strides of the model's gradients with two axes and more.
void record_layouts(RankContext& here, int number, const LayeredModel& model);

// The rows of a rank that took no part.
void record_no_layouts(RankContext& here, int number, const LayeredModel& model);

// Those of one model on all ranks. A gradient has the strides of its parameter where a pass or the
// replica makes it, and later ones keep them; a view has its parameter's.
class FollowedLayouts {
 public:
  FollowedLayouts(const ProgramSpec& c, const FollowedModel& model, int number);

  // `model` has followed the action.
  void follow(const Action& action, const FollowedModel& model);

  std::vector<Comparison> rows(const History& h, const Action& action) const;

 private:
  using Strides = std::vector<int64_t>;
  struct Parameter {
    size_t number = 0;
    std::string name;
    Strides own, transposed;  // `transposed`: after relayout
  };
  struct Gradient {
    bool is_there = false;
    std::optional<Strides> strides;  // unknown where they are autograd's choice
  };
  void follow(const Action& action, int rank, bool was_averaged, const Parameter& parameter,
              Gradient& gradient) const;

  const ProgramSpec& c_;
  const int number_;
  std::vector<Parameter> parameters_;
  std::vector<std::vector<Gradient>> gradients_;  // by rank, by parameter
};

}  // namespace lockstep::scenarios::programs
