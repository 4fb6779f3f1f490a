#include "scenarios/programs/actions.h"

#include "scenarios/programs/frozen.h"
#include "scenarios/programs/joined.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace lockstep::scenarios::programs {

namespace {

// An open graph.
struct Graph {
  int step = 0;
  bool is_synchronised = false;
  int reductions_before = 0;
  bool has_output = true;  // else functions tell whose it is, which a new group forgets
  // Where unused parameters are found, they are those of the forwards since the last reduction: a
  // later forward may not reach what this graph does.
  bool is_superseded = false;
  bool is_stale = false;  // it does not reach parameters that were unfrozen since
};

// A model between two steps.
class Progress {
 public:
  Progress(const Programme& c, int model) : c_(c), parts_(parts_of_world(c, 0)), frozen_(c, model) {
    for (const auto& layer : layers_of(c, model)) {
      saves_parameters_ = saves_parameters_ || layer.use == "squared";
      recomputes_ = recomputes_ || layer.use == "recomputed";
    }
    for (const auto& step : c.steps) saves_parameters_ = saves_parameters_ || step.penalty_alone;
  }

  // Whether the step of an action means something here; adds what it does.
  bool runs(Action& action) {
    const auto& op = action.step.op;
    action.is_local = is_wrapped_ && (action.step.no_sync > 0 || held_ > 0);
    if (!frozen_.is_noted() && !means_something_unnoted(op)) return false;
    if (is_broken_ && !means_something_broken(op)) return false;
    if (op == "tell") return is_wrapped_ && notes();
    if (op == "hold") return is_wrapped_ && ++held_ > 0;
    if (op == "release") return held_ > 0 && held_-- > 0;
    if (op == "forward") return is_wrapped_ && opens(action);
    if (op.starts_with("backward") || op == "grad") return closes(action);
    if (op == "bare") return runs_bare(action);
    if (op == "evaluate" || op == "infer" || op == "throw") return is_wrapped_;
    if (op.starts_with("update") || op == "load") return may_write_parameters();
    if (op == "freeze" || op == "unfreeze") return freezes(action.step);
    // What autograd knows of a parameter goes with its dtype, and an open graph keeps the old.
    if (op == "convert") return converts();
    if (op == "unwrap") return unwraps();
    if (op == "wrap") return wraps(action.step);
    if (op == "regroup") return regroups(action.step);
    return true;
  }

  // With a static graph no rank can shadow another.
  bool joins(Action& action) const {
    action.parts = parts_;
    if (is_broken_ || !frozen_.is_noted()) return false;
    return is_wrapped_ && (!is_shadowed(action.step) || !c_.options.static_graph);
  }

  // Ranks that were out of inputs have other graphs, and have not hooked what was converted before.
  void finishes(Action& action) {
    for (const auto& graph : open_) action.closed.push_back(graph.step);
    open_.clear();
    has_lost_hooks_ = true;
    begins_anew();
  }

 private:
  bool notes() {
    frozen_.note();
    is_broken_ = false;
    return begins_anew();
  }

  bool opens(Action& action) {
    if (!frozen_.is_noted()) return action.is_refused = is_broken_ = !action.is_local;
    action.is_synchronised = !action.is_local;
    has_lost_hooks_ = false;
    if (!may_leave_out(action.step, action.is_synchronised)) return false;
    action.uses_first = !is_alone(action.step);
    const bool uses_all = uses_all_layers(c_, action.step);
    const bool finds_anew = action.is_synchronised && !is_outstanding_;
    for (auto& graph : open_)
      if (uses_all || (finds_anew && graph.reductions_before < reduction_count_))
        graph.is_superseded = !uses_all;
    open_.push_back(
        {action.number, action.is_synchronised, reduction_count_, !action.step.penalty_alone});
    is_outstanding_ = is_outstanding_ || action.is_synchronised;
    return true;
  }

  bool converts() {
    has_lost_hooks_ = has_lost_hooks_ || open_.empty();
    return open_.empty();
  }

  // After a conversion the replica observes no pass before its next forward, which matters where
  // unused parameters are found.
  bool runs_bare(Action& action) {
    if (has_lost_hooks_ && is_wrapped_ && finds_unused(c_)) return false;
    action.uses_first = !is_alone(action.step);
    return may_leave_out(action.step, false);
  }

  bool closes(Action& action) {
    if (open_.empty()) return false;
    const bool together = action.step.op == "backward_together";
    const auto chosen = static_cast<size_t>(action.step.of) % open_.size();
    const auto graphs = together ? open_ : std::vector<Graph>{open_[chosen]};
    for (const auto& graph : graphs) {
      action.graphs.push_back(graph.step);
      action.is_synchronised = action.is_synchronised || graph.is_synchronised;
    }
    if (recomputes_ && !may_recompute(action, graphs)) return false;
    if (action.step.op == "grad") {
      action.is_synchronised = false;
      return true;
    }
    if (action.step.inputs == "first" && action.is_synchronised && !finds_unused(c_)) return false;
    if (action.is_synchronised && !may_be_reduced(graphs)) return false;
    if (action.is_synchronised) begins_anew();
    if (action.step.op == "backward_retained") return true;
    action.closed = action.graphs;
    if (together) {
      open_.clear();
    } else {
      open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(chosen));
    }
    return true;
  }

  bool may_be_reduced(const std::vector<Graph>& graphs) const {
    return std::none_of(graphs.begin(), graphs.end(), [&](const Graph& each) {
      return finds_unused(c_) ? each.is_superseded : each.is_stale;
    });
  }

  // Autograd runs what is on the way to the inputs of a pass, which recomputation is not; what is
  // recomputed finds the parameters that are trainable now; and of two graphs it brings each
  // gradient twice.
  static bool may_recompute(const Action& action, const std::vector<Graph>& graphs) {
    return action.step.inputs == "no" && graphs.size() == 1 && !graphs.front().is_stale;
  }

  // The forwards so far decide no more which parameters are unused.
  bool begins_anew() {
    ++reduction_count_;
    is_outstanding_ = false;
    return true;
  }

  bool freezes(const Step& step) {
    if (frozen_.count() == 0) return false;
    const auto layer = static_cast<size_t>(step.layer) % frozen_.count();
    if (step.op == "freeze" && frozen_.is_delayed(layer)) return false;
    frozen_.freeze(layer, step.op == "freeze");
    if (step.op == "unfreeze")
      for (auto& graph : open_) graph.is_stale = true;
    return (step.forgotten && is_wrapped_) || notes();
  }

  // Graphs of the replica stay, as local ones.
  bool unwraps() {
    if (!std::exchange(is_wrapped_, false)) return false;
    for (auto& graph : open_) graph.is_synchronised = false;
    held_ = 0;
    return notes();
  }

  // A new replica writes parameters, as an update does.
  bool wraps(const Step& step) {
    if (!may_write_parameters()) return false;
    unwraps();
    is_wrapped_ = true;
    return regroups(step);
  }

  bool regroups(const Step& step) {
    if (!is_wrapped_) return false;
    parts_ = parts_of_world(c_, step.cut);
    for (auto& graph : open_) graph.is_synchronised = graph.is_synchronised && graph.has_output;
    return notes();
  }

  bool may_write_parameters() const { return !saves_parameters_ || open_.empty(); }

  // Where unused parameters are found this is misuse; and an output needs a graph.
  bool is_alone(const Step& step) const {
    if (step.direct != "alone" || step.penalty_alone || finds_unused(c_)) return false;
    if (!step.left_out_of_loss.empty()) return false;
    const auto bits = left_out_by_rank(c_, step);
    return std::all_of(bits.begin(), bits.end(),
                       [&](uint32_t left_out) { return frozen_.train_without(left_out); });
  }

  // A static graph is one graph, on each rank. Where unused parameters are not found, every
  // synchronised pass brings all gradients.
  bool may_leave_out(const Step& step, bool is_synchronised) {
    // A recomputed segment has no second derivatives.
    if (step.penalty_alone && recomputes_) return false;
    auto bits = left_out_by_rank(c_, step);
    for (int rank = 0; rank < c_.world.size; ++rank)
      bits.push_back(left_out_of_loss(c_, step, rank));
    if (c_.options.static_graph) {
      if (!static_bits_) static_bits_ = bits;
      return bits == *static_bits_;
    }
    return finds_unused(c_) || !is_synchronised ||
           std::all_of(bits.begin(), bits.end(), [](uint32_t each) { return each == 0; });
  }

  const Programme& c_;
  std::vector<std::vector<int>> parts_;  // the ranks that train together
  bool saves_parameters_ = false;        // an open graph does
  FrozenLayers frozen_;
  bool is_broken_ = false;  // by a forward that it refused
  int held_ = 0;            // guards
  bool recomputes_ = false;
  bool is_wrapped_ = true;
  bool has_lost_hooks_ = false;
  std::vector<Graph> open_;
  int reduction_count_ = 0;
  bool is_outstanding_ = false;  // a synchronised forward, since the last reduction
  std::optional<std::vector<uint32_t>> static_bits_;
};

// All models, step by step.
class Walk {
 public:
  explicit Walk(const Programme& c) : c_(c) {
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
    const auto ranks = static_cast<size_t>(c_.world.size);
    Action action{.number = number_, .step = step, .model = model_of(c_, step)};
    action.acts.assign(ranks, true);
    action.is_stopped.assign(ranks, false);
    if (step.op == "join") return join(action);
    if (step.op == "finish") return finish();
    auto joined = join_;
    if (joined) {
      if (!joined->admits(step, action.model)) return;
      joined->enter(action);
    }
    const auto is_one = [](const std::vector<bool>& ranks_that) {
      return std::find(ranks_that.begin(), ranks_that.end(), true) != ranks_that.end();
    };
    if (is_one(action.acts) ? !at(action.model).runs(action) : !is_one(action.is_stopped)) return;
    join_ = std::move(joined);
    actions_.push_back(std::move(action));
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

  const Programme& c_;
  int number_ = 0;
  std::vector<Progress> models_;
  std::optional<Joined> join_;
  std::vector<Action> actions_;
};

}  // namespace

std::vector<Action> actions_of(const Programme& c) {
  return Walk(c).actions();
}

}  // namespace lockstep::scenarios::programs
