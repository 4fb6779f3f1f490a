#include "scenarios/programs/case.h"

#include <algorithm>
#include <optional>

namespace lockstep::scenarios::programs {

std::vector<LayerSpec> layers_of(const Programme& c, int model) {
  std::vector<LayerSpec> layers = c.layers;
  if (!layers.empty()) {
    const auto first = static_cast<size_t>(model) % layers.size();
    std::rotate(layers.begin(), layers.begin() + static_cast<std::ptrdiff_t>(first), layers.end());
  }
  for (size_t i = 0; i < layers.size(); ++i) {
    auto& layer = layers[i];
    layer.tied = layer.tied && i > 0;
    if (!layer.tied) continue;
    layer.kind = layers[i - 1].kind;
    layer.size = layers[i - 1].size;
    layer.dtype = layers[i - 1].dtype;
  }
  return layers;
}

uint32_t left_out(const Programme& c, const Step& step, int rank) {
  if (step.unused.empty()) return 0;
  const auto layers = std::min<size_t>(c.layers.size(), 30);
  const auto bits =
      static_cast<uint32_t>(step.unused[static_cast<size_t>(rank) % step.unused.size()]);
  return bits & ((uint32_t{1} << layers) - 1);
}

uint32_t left_out_of_loss(const Programme& c, const Step& step, int rank) {
  if (step.left_out_of_loss.empty()) return 0;
  const auto bits = static_cast<uint32_t>(
      step.left_out_of_loss[static_cast<size_t>(rank) % step.left_out_of_loss.size()]);
  return bits & ((uint32_t{1} << c.outputs) - 1) & ~uint32_t{1};
}

namespace {

bool finds_unused(const Programme& c) {
  return c.options.find_unused_parameters && !c.options.static_graph;
}

std::vector<uint32_t> left_out_by_rank(const Programme& c, const Step& step) {
  std::vector<uint32_t> out;
  for (int rank = 0; rank < c.world.size; ++rank) out.push_back(left_out(c, step, rank));
  return out;
}

// An open graph.
struct Graph {
  int step = 0;
  bool is_synchronised = false;
  int reductions_before = 0;
  // Where unused parameters are found, they are those of the forwards since the last reduction: a
  // later forward may not reach what this graph does.
  bool is_superseded = false;
};

// A model between two steps.
class Progress {
 public:
  Progress(const Programme& c, int model) : c_(c) {
    for (const auto& layer : layers_of(c, model))
      saves_parameters_ = saves_parameters_ || layer.use == "squared";
  }

  // What the step does here; nothing where it means nothing.
  std::optional<Action> next(const Step& step, int number) {
    Action action{.number = number, .step = step, .model = model_of(c_, step)};
    const bool is_known = step.op == "forward"              ? opens(action)
                          : step.op.starts_with("backward") ? closes(action)
                          : step.op == "bare"               ? may_leave_out(step, false)
                          : step.op.starts_with("update")   ? may_update()
                                                            : true;
    return is_known ? std::optional(action) : std::nullopt;
  }

 private:
  bool opens(Action& action) {
    action.is_synchronised = action.step.no_sync == 0;
    if (!may_leave_out(action.step, action.is_synchronised)) return false;
    const bool uses_all = reaches_all(action.step);
    const bool finds_anew = action.is_synchronised && !is_outstanding_;
    for (auto& graph : open_)
      if (uses_all || (finds_anew && graph.reductions_before < reduction_count_))
        graph.is_superseded = !uses_all;
    open_.push_back({action.number, action.is_synchronised, reduction_count_});
    is_outstanding_ = is_outstanding_ || action.is_synchronised;
    return true;
  }

  bool closes(Action& action) {
    if (open_.empty()) return false;
    const bool together = action.step.op == "backward_together";
    const auto chosen = static_cast<size_t>(action.step.of) % open_.size();
    std::vector<Graph> graphs{open_[chosen]};
    if (together) graphs = open_;
    for (const auto& graph : graphs) {
      action.graphs.push_back(graph.step);
      action.is_synchronised = action.is_synchronised || graph.is_synchronised;
    }
    if (action.is_synchronised && finds_unused(c_) &&
        std::any_of(graphs.begin(), graphs.end(),
                    [](const Graph& each) { return each.is_superseded; }))
      return false;
    if (action.is_synchronised) {
      ++reduction_count_;
      is_outstanding_ = false;
    }
    if (action.step.op == "backward_retained") return true;
    action.closed = action.graphs;
    if (together) {
      open_.clear();
    } else {
      open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(chosen));
    }
    return true;
  }

  // A static graph is one graph, on each rank. Where unused parameters are not found, every
  // synchronised pass brings all gradients.
  bool may_leave_out(const Step& step, bool is_synchronised) {
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

  bool reaches_all(const Step& step) const {
    const auto bits = left_out_by_rank(c_, step);
    return std::all_of(bits.begin(), bits.end(), [](uint32_t each) { return each == 0; });
  }

  // An update writes the parameters that such graphs have saved.
  bool may_update() const { return !saves_parameters_ || open_.empty(); }

  const Programme& c_;
  bool saves_parameters_ = false;
  std::vector<Graph> open_;
  int reduction_count_ = 0;
  bool is_outstanding_ = false;  // a synchronised forward, since the last reduction
  std::optional<std::vector<uint32_t>> static_bits_;
};

}  // namespace

// Where unused parameters are found this is misuse; and an output needs a graph.
bool is_alone(const Programme& c, const Step& step) {
  if (step.direct != "alone" || finds_unused(c) || !step.left_out_of_loss.empty()) return false;
  const auto layers = layers_of(c, model_of(c, step));
  const auto bits = left_out_by_rank(c, step);
  return std::all_of(bits.begin(), bits.end(), [&](uint32_t left_out) {
    for (size_t i = 0; i < std::min<size_t>(layers.size(), 30); ++i)
      if ((left_out >> i) % 2 == 0 && layers[i].frozen == "none" && !layers[i].tied) return true;
    return false;
  });
}

std::vector<Action> actions_of(const Programme& c) {
  std::vector<Progress> models;
  for (int model = 0; model < c.models; ++model) models.emplace_back(c, model);
  std::vector<Action> actions;
  for (int number = 0; number < static_cast<int>(c.steps.size()); ++number) {
    const auto& step = c.steps[static_cast<size_t>(number)];
    auto action = models[static_cast<size_t>(model_of(c, step))].next(step, number);
    if (action) actions.push_back(std::move(*action));
  }
  return actions;
}

}  // namespace lockstep::scenarios::programs
