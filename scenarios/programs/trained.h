// One model of a ProgramSpec on one rank: its replica, its optimizer, its open graphs.
#pragma once

#include "harness/rank/rank_context.h"
#include "scenarios/programs/actions.h"
#include "scenarios/programs/layers.h"

#include <torch/optim/sgd.h>

#include <map>
#include <memory>

namespace lockstep::scenarios::programs {

// A training; the case and the actions that it refers to outlive it.
class Trained {
 public:
  // Collective: wraps the model over all ranks.
  Trained(const ProgramSpec& c, const std::vector<Action>& actions, int model, RankContext& here);
  ~Trained();
  Trained(const Trained&) = delete;
  Trained& operator=(const Trained&) = delete;

  // Does what the action says, but for its guards and joins. Collective where that is.
  void run(const Action& action);

  // Null between unwrap and wrap.
  Replica* replica() const { return replica_.get(); }
  const LayeredModel& module() const { return *module_; }

  // The sum of losses of the open graphs of these forwards' steps.
  at::Tensor sum_of_losses(const std::vector<int>& steps) const;

  // Frees the graphs of these forwards' steps, where there are any.
  void drop_graphs(const std::vector<int>& steps);
  void drop_gradients() { module_->zero_grad(/*set_to_none=*/true); }

 private:
  std::unique_ptr<Replica> wrapped(const Group& group) const;
  at::Tensor prepared(const Action& action);
  at::Tensor loss(const Action& action, const at::Tensor& input,
                  const std::vector<at::Tensor>& outputs);
  at::Tensor forward(const Action& action);
  void backward(const Action& action);
  void grad(const Action& action) const;
  void evaluate(const Action& action);
  std::vector<at::Tensor> trainable() const;
  bool is_finite() const;

  const ProgramSpec& c_;
  const std::vector<Action>& actions_;
  RankContext& here_;
  const std::shared_ptr<LayeredModel> module_;
  std::unique_ptr<Replica> replica_;
  std::vector<std::shared_ptr<void>> guards_;  // of no_sync
  std::unique_ptr<torch::optim::SGD> optimizer_;
  std::map<int, at::Tensor> losses_;  // of open graphs, by the number of the forward's step
};

}  // namespace lockstep::scenarios::programs
