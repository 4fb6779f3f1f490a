// The effect of passes on a model of a ProgramSpec, and of averages on what they bring.
#include "scenarios/programs/expected/follow.h"

#include <torch/torch.h>

#include <utility>

namespace lockstep::scenarios::programs {

FollowedModel::Gradients FollowedModel::gradients_of(const Action& action, int rank) {
  std::vector<at::Tensor> trainable;
  {
    const torch::NoGradGuard no_grad;
    for (size_t p = 0; p < leaves_.size(); ++p) {
      numbers_of(leaves_[p]).copy_(replicas_.parameter(rank, p));
      if (leaves_[p].requires_grad()) trainable.push_back(leaves_[p]);
    }
  }
  module_.call = call_of(c_, action, rank);
  const auto input =
      input_of(c_, action, rank, module_.input_count()).requires_grad_(action.step.penalty_alone);
  auto output = sum_of_outputs(c_, action, rank, module_.outputs(input));
  if (action.step.penalty_alone)
    output = penalty_for_input(output, input);
  else if (action.step.penalty)
    output = output + penalty_of(output, module_);
  if (action.step.direct != Direct::no) output = output + module_.first().sum() * kDirect;
  const auto came = torch::autograd::grad({output * weight_of(c_, actions_, action, rank)},
                                          trainable, {}, false, false, /*allow_unused=*/true);
  Gradients out(leaves_.size());
  for (size_t p = 0, next = 0; p < leaves_.size(); ++p)
    if (leaves_[p].requires_grad()) {
      if (came[next].defined()) out[p] = numbers_of(came[next]);
      ++next;
    }
  return out;
}

void FollowedModel::run_bare(const Action& action) {
  for (int rank = 0; rank < c_.world.size; ++rank) {
    if (!has_bit(action.step.ranks, rank) || !action.acts[static_cast<size_t>(rank)]) continue;
    count(action, rank);
    replicas_.add(rank, gradients_of(action, rank));
  }
  mistakes_.push_back({"reduced_a_bare_pass",
                       "the average, though the pass ran nothing of a forward of the replica",
                       replicas_});
  mistakes_.back().replicas.average();
}

void FollowedModel::run_backward(const Action& action) {
  for (const int number : action.graphs) {
    for (int rank = 0; rank < c_.world.size; ++rank) {
      if (!action.acts[static_cast<size_t>(rank)]) continue;
      auto gradients = graphs_.at(number)[static_cast<size_t>(rank)];
      for (size_t p = 0; p < leaves_.size(); ++p)
        if (!leaves_[p].requires_grad() || (action.step.inputs == Inputs::first && p > 0))
          gradients[p].reset();  // frozen since, or not asked for
      replicas_.add(rank, gradients);
    }
  }
  if (action.is_synchronised) {
    // First: where one rank alone has inputs it is what that has for itself.
    if (is_shadowed_) {
      mistakes_.push_back({"divided_by_the_other_count",
                           "an average over all ranks where those that have inputs count, or the "
                           "reverse",
                           replicas_});
      mistakes_.back().replicas.divide_by(divisor_ == reference::Divisor::group_size
                                              ? reference::Divisor::ranks_with_inputs
                                              : reference::Divisor::group_size);
      mistakes_.back().replicas.average();
    }
    mistakes_.push_back({"not_reduced",
                         "each rank holds its own gradient: this backward was not averaged",
                         replicas_});
    average(action);
  } else {
    mistakes_.push_back(
        {"reduced_inside_no_sync", "the average, though its forward was local", replicas_});
    mistakes_.back().replicas.average();
  }
  for (const int number : action.closed) graphs_.erase(number);
}

void FollowedModel::average(const Action& action) {
  auto other = replicas_;
  for (int rank = 0; rank < c_.world.size; ++rank)
    for (size_t p = 0; p < leaves_.size(); ++p) {
      using reference::Scaling;
      const auto scaling = scaling_.of(action, rank, p);
      replicas_.scale_by(rank, p, scaling);
      other.scale_by(rank, p, scaling == Scaling::divided ? Scaling::multiplied : Scaling::divided);
    }
  replicas_.average();
  other.average();
  mistakes_.push_back({"scaled_another_way",
                       "gradients that should be divided are multiplied by the rounded reciprocal, "
                       "or the reverse: the last bit differs",
                       std::move(other)});
}

}  // namespace lockstep::scenarios::programs
