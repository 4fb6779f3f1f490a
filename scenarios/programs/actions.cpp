#include "scenarios/programs/actions.h"

#include "scenarios/programs/joined.h"
#include "scenarios/programs/progress.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace lockstep::scenarios::programs {

namespace {

// All models, step by step.
class Walk {
 public:
  explicit Walk(const ProgramSpec& c) : c_(c) {
    for (int model = 0; model < c.models; ++model) models_.emplace_back(c, model);
  }

  std::vector<Action> actions() {
    for (const auto& step : c_.steps) {
      take(step);
      ++number_;
    }
    finish();
    return std::move(actions_);
  }

 private:
  void take(const Step& step) {
    if (is_everywhere(c_, step) && !join_) return take_everywhere(step);
    auto action = action_of(step, model_of(c_, step));
    if (step.op == Op::join) return join(action);
    if (step.op == Op::finish) return finish();
    auto joined = join_;
    if (joined) {
      if (!joined->admits(step, action.model)) return;
      joined->enter(action);
    }
    const auto is_one = [](const std::vector<bool>& ranks_that) {
      return std::find(ranks_that.begin(), ranks_that.end(), true) != ranks_that.end();
    };
    if (is_one(action.acts) ? !at(action.model).runs(action) : !is_one(action.is_stopped)) return;
    if (joined && step.op == Op::regroup) joined->regroup(at(action.model).parts());
    join_ = std::move(joined);
    actions_.push_back(std::move(action));
  }

  void take_everywhere(const Step& step) {
    bool by_rank = step.op == Op::forward;
    for (int model = 0; model < c_.models; ++model)
      by_rank = by_rank && (!at(model).is_ready() || at(model).goes_in_any_order(step));
    for (int model = 0; model < c_.models; ++model) {
      auto action = action_of(with_own_fields(step), model);
      action.by_rank = by_rank;
      if (at(model).is_ready() && at(model).runs(action)) actions_.push_back(std::move(action));
    }
  }

  Action action_of(const Step& step, int model) const {
    const auto ranks = static_cast<size_t>(c_.world.size);
    Action action{.number = number_, .step = step, .model = model};
    action.acts.assign(ranks, true);
    action.is_stopped.assign(ranks, false);
    return action;
  }

  void join(Action& action) {
    if (join_ || !at(action.model).joins(action)) return;
    join_.emplace(action);
    actions_.push_back(std::move(action));
  }

  void finish() {
    if (!join_) return;
    auto action = join_->finish(number_);
    at(action.model).finishes(action);
    actions_.push_back(std::move(action));
    join_.reset();
  }

  Progress& at(int model) { return models_[static_cast<size_t>(model)]; }

  const ProgramSpec& c_;
  int number_ = 0;
  std::vector<Progress> models_;
  std::optional<Joined> join_;
  std::vector<Action> actions_;
};

}  // namespace

std::vector<Action> actions_of(const ProgramSpec& c) {
  return Walk(c).actions();
}

}  // namespace lockstep::scenarios::programs
