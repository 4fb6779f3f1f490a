// Samples of gradients as each rank computed them and as an update took them.
#pragma once

#include "harness/recorded/recorded_run.h"

#include <map>

namespace lockstep::recorded {

// Some values, by tensor.
using GradientValues = std::map<std::string, std::vector<double>>;

struct AveragedGradients {
  Moment at;
  std::string of;
  GradientValues own, taken;
  bool is_hooked = false;  // a tensor hook of the program had them first
  size_t backwards = 0;    // since the update before, where those of a model are known
};

// The same average on all ranks, by rank.
using AveragedByRank = std::vector<const AveragedGradients*>;

// One value on all ranks, as each had computed it.
struct AveragedValue {
  std::vector<double> own;
  double taken = 0;
};

// The values of an average, where all ranks recorded the same ones and took the same; none where
// not.
std::vector<AveragedValue> values_of(const AveragedByRank& ranks);

// "the gradients after a backward of model 0".
std::string gradients_text(const AveragedGradients& is);

// The averages of a run that all ranks have.
class AveragesOfRun {
 public:
  explicit AveragesOfRun(const RecordedRun& run);
  const std::vector<AveragedByRank>& all() const { return all_; }

  // The steps of every optimizer multiply gradients by the number of ranks themselves, as far as
  // the ranks could tell.
  bool are_multiplied_by_steps() const { return are_multiplied_by_steps_; }

 private:
  std::vector<std::vector<AveragedGradients>> by_rank_;
  std::vector<AveragedByRank> all_;
  bool are_multiplied_by_steps_;
};

}  // namespace lockstep::recorded
