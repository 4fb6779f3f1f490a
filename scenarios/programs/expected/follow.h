// A ProgramSpec in one process: what every rank must hold after each of its steps.
#pragma once

#include "reference/buckets.h"
#include "reference/replicas.h"
#include "scenarios/programs/expected/scaling.h"
#include "scenarios/programs/values.h"

#include <map>
#include <memory>

namespace lockstep::scenarios::programs {

// One model on all ranks. Gradients of a rank's batch come from the plain module, in double
// precision.
class FollowedModel {
 public:
  FollowedModel(const ProgramSpec& c, const std::vector<Action>& actions, int model);

  void follow(const Action& action);

  // A rank continues from what it was seen to hold (reference::Replicas::hold).
  void hold(int rank, size_t p, const at::Tensor& parameter, const at::Tensor& gradient) {
    replicas_.hold(rank, p, parameter, gradient);
  }

  const std::vector<std::string>& parameters() const { return names_; }
  const Form& form(size_t p) const { return forms_[p]; }
  const reference::Replicas& replicas() const { return replicas_; }
  int64_t buffer(int rank, size_t b) const { return buffers_[static_cast<size_t>(rank)][b]; }

  // The buffers if the last action had sent none; null where it sent none.
  const std::vector<std::vector<int64_t>>* unsent_buffers() const {
    return unsent_buffers_.empty() ? nullptr : &unsent_buffers_;
  }

  // The gradients in the model's buckets, and the parameters that have one which is averaged.
  const std::vector<reference::TravellingGradient>& gradients() const { return travelling_; }
  std::vector<size_t> reduced() const;

  // The sentence with which each rank refuses a forward, since nobody reported what is frozen.
  std::vector<std::string> refusals() const;

  // The ranks that train together.
  const std::vector<std::vector<int>>& groups() const { return groups_; }

  // The forwards of a rank that the last join counted, since it began or the group changed.
  int forwards_counted(int rank) const { return forwards_counted_[static_cast<size_t>(rank)]; }

  // The replicas that a known mistake would have left where the last action ran.
  struct Mistake {
    std::string pattern, text;  // as a Diagnosis has them
    reference::Replicas replicas;
  };
  const std::vector<Mistake>& mistakes() const { return mistakes_; }

 private:
  using Gradients = std::vector<at::Tensor>;  // by parameter; undefined: none came
  using Graph = std::vector<Gradients>;       // by rank
  Gradients gradients_of(const Action& action, int rank);
  void begin();
  void note_what_takes_part();
  void begin_forward(const Action& action);
  void note_inputs(const Action& action);
  void count(const Action& action, int rank);
  void run_bare(const Action& action);
  void run_backward(const Action& action);
  void average(const Action& action);
  void load(const Action& action, int rank);
  void follow(const Action& action, int rank);
  void freeze(const Action& action);
  void wrap(const Action& action);
  void regroup(const Action& action);
  void join(const Action& action);
  void finish(const Action& action);
  // To all ranks of a group, from one of its ranks.
  void copy_parameters(const std::vector<int>& group, int source);
  void copy_buffers(const std::vector<int>& group, int source);

  const ProgramSpec& c_;
  const std::vector<Action>& actions_;
  const int model_;
  LayeredModel module_;
  std::vector<at::Tensor> leaves_;
  std::vector<std::string> names_;
  std::vector<Form> forms_;
  std::vector<reference::TravellingGradient> travelling_;
  std::vector<bool> is_ignored_;
  std::vector<bool> was_trainable_;  // when it was last reported
  reference::Replicas replicas_;
  std::vector<Mistake> mistakes_;
  std::map<int, Graph> graphs_;                // by the number of the forward's step
  std::vector<std::vector<int64_t>> buffers_;  // by rank
  std::vector<std::vector<int64_t>> unsent_buffers_;
  std::vector<std::vector<int>> groups_;
  std::vector<bool> sends_buffers_next_;  // by rank
  std::vector<int> forwards_counted_;     // by rank
  FollowedScaling scaling_;
  // In a join in which ranks without inputs shadow the others.
  bool is_shadowed_ = false;
  reference::Divisor divisor_ = reference::Divisor::group_size;
  std::vector<int> last_with_inputs_;  // by group: the highest rank that had inputs last
};

}  // namespace lockstep::scenarios::programs
