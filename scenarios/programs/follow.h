// A Programme in one process: what every rank must hold after each of its steps.
#pragma once

#include "reference/replicas.h"
#include "scenarios/programs/values.h"

#include <map>
#include <memory>

namespace lockstep::scenarios::programs {

// One model on all ranks. Gradients of a rank's batch come from the plain module, in double
// precision.
class FollowedModel {
 public:
  FollowedModel(const Programme& c, const std::vector<Action>& actions, int model);

  void follow(const Action& action);

  const std::vector<std::string>& parameters() const { return names_; }
  const Form& form(size_t p) const { return forms_[p]; }
  const reference::Replicas& replicas() const { return replicas_; }
  int64_t buffer(int rank, size_t b) const { return buffers_[static_cast<size_t>(rank)][b]; }

  // The gradients of each rank as the last action would have left them, had it been reduced where
  // it was local, or local where it was reduced; by parameter.
  std::vector<at::Tensor> otherwise(size_t p) const;

 private:
  using Gradients = std::vector<at::Tensor>;  // by parameter; undefined: none came
  using Graph = std::vector<Gradients>;       // by rank
  Gradients gradients_of(const Action& action, int rank);
  void begin();
  void note_what_takes_part();
  void begin_forward(const Action& action);
  void count(const Action& action, int rank);
  void run_bare(const Action& action);
  void run_backward(const Action& action);
  void load(const Action& action);
  void freeze(const Action& action);
  void wrap(const Action& action);
  void regroup(const Action& action);
  void copy_buffers_from_first_ranks();

  const Programme& c_;
  const std::vector<Action>& actions_;
  const int model_;
  LayeredModel module_;
  std::vector<at::Tensor> leaves_;
  std::vector<std::string> names_;
  std::vector<Form> forms_;
  std::vector<bool> is_ignored_;
  reference::Replicas replicas_;
  std::vector<reference::Replicas> otherwise_;  // one or none
  std::map<int, Graph> graphs_;                 // by the number of the forward's step
  std::vector<std::vector<int64_t>> buffers_;   // by rank
  std::vector<std::vector<int>> groups_;
  bool sends_buffers_next_ = true;
};

}  // namespace lockstep::scenarios::programs
