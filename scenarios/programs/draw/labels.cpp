#include "scenarios/programs/draw/labels.h"

#include "scenarios/cases/labels.h"
#include "scenarios/cases/options.h"
#include "scenarios/programs/actions.h"

#include <algorithm>
#include <functional>
#include <set>

namespace lockstep::scenarios::programs {

namespace {

bool has_step(const ProgramSpec& c, bool (*is_it)(const Step&)) {
  return std::any_of(c.steps.begin(), c.steps.end(), is_it);
}

bool has_layer(const ProgramSpec& c, bool (*is_it)(const LayerSpec&)) {
  return std::any_of(c.layers.begin(), c.layers.end(), is_it);
}

// As the model has it.
bool has_resolved_layer(const ProgramSpec& c, bool (*is_it)(const LayerSpec&)) {
  const auto layers = layers_of(c, 0);
  return std::any_of(layers.begin(), layers.end(), is_it);
}

bool has_action(const ProgramSpec& c, const std::function<bool(const Action&)>& is_it) {
  const auto actions = actions_of(c);
  return std::any_of(actions.begin(), actions.end(), is_it);
}

// Some ranks are out of inputs and others act.
bool is_partly_shadowed(const Action& action) {
  const auto& acts = action.acts;
  return std::find(acts.begin(), acts.end(), true) != acts.end() &&
         std::find(acts.begin(), acts.end(), false) != acts.end();
}

// An averaged backward pass that a rank without inputs shadows, in such a join.
bool has_shadowed_average(const ProgramSpec& c, JoinKind uneven) {
  std::optional<JoinKind> now;
  return has_action(c, [&](const Action& action) {
    if (action.step.op == Op::join) now = action.step.uneven;
    return now == uneven && is_partly_shadowed(action) && action.is_synchronised &&
           is_backward(action.step.op);
  });
}

// A change of the process group while a join is under way.
bool has_regrouped_join(const ProgramSpec& c) {
  bool is_in_join = false;
  return has_action(c, [&](const Action& action) {
    if (action.step.op == Op::join) is_in_join = true;
    if (action.step.op == Op::finish) is_in_join = false;
    return is_in_join && action.step.op == Op::regroup;
  });
}

// One pass through a synchronised forward, whose loss is a penalty alone, and through a local one.
bool has_penalty_beside_local(const ProgramSpec& c) {
  std::set<int> penalties, local;
  return has_action(c, [&](const Action& action) {
    const auto is_of = [&](const std::set<int>& forwards) {
      return std::any_of(action.graphs.begin(), action.graphs.end(),
                         [&](int graph) { return forwards.contains(graph); });
    };
    if (action.step.op == Op::forward && action.is_local != action.step.penalty_alone)
      (action.is_local ? local : penalties).insert(action.number);
    return action.step.op == Op::backward_together && is_of(penalties) && is_of(local);
  });
}

}  // namespace

std::vector<Label<ProgramSpec>> labels() {
  return {
      {"three ranks and more", 0.2, has_three_ranks<ProgramSpec>},
      {"a join whose state travels in small messages", 0.05,
       [](const ProgramSpec& c) {
         return message_bytes(c.seed) > 0 &&
                has_step(c, [](const Step& step) { return step.op == Op::join; });
       }},
      {"a window of no_sync", 0.2,
       [](const ProgramSpec& c) {
         return has_step(c, [](const Step& step) { return step.no_sync > 0; });
       }},
      {"an evaluation", 0.1,
       [](const ProgramSpec& c) {
         return has_step(
             c, [](const Step& step) { return step.op == Op::evaluate || step.op == Op::infer; });
       }},
      {"a forward that throws", 0.05,
       [](const ProgramSpec& c) {
         return has_step(c, [](const Step& step) { return step.op == Op::throw_; });
       }},
      {"layers that a forward leaves out", 0.05,
       [](const ProgramSpec& c) {
         return has_step(c, [](const Step& step) { return !step.unused.empty(); });
       }},
      {"a guard of no_sync over several steps", 0.05,
       [](const ProgramSpec& c) {
         return has_step(c, [](const Step& step) { return step.op == Op::hold; });
       }},
      {"a forward that is refused, for nobody reported what is frozen", 0.03,
       [](const ProgramSpec& c) {
         return has_action(c, [](const Action& action) { return action.is_refused; });
       }},
      {"a loss that is a penalty alone", 0.05,
       [](const ProgramSpec& c) {
         return has_step(c, [](const Step& step) { return step.penalty_alone; });
       }},
      {"a model that returns a parameter", 0.04,
       [](const ProgramSpec& c) { return c.returns_first; }},
      {"a layer frozen or unfrozen", 0.1,
       [](const ProgramSpec& c) {
         return has_step(c, [](const Step& step) { return is_freeze(step.op); });
       }},
      {"values loaded, or memory exchanged", 0.1,
       [](const ProgramSpec& c) {
         return has_step(c, [](const Step& step) {
           return step.op == Op::load || step.op == Op::renew || step.op == Op::convert;
         });
       }},
      {"a replica after another one", 0.05,
       [](const ProgramSpec& c) {
         return has_step(c, [](const Step& step) { return step.op == Op::wrap; });
       }},
      {"another process group", 0.05,
       [](const ProgramSpec& c) {
         return has_step(c, [](const Step& step) { return step.op == Op::regroup; });
       }},
      {"a layer that is recomputed", 0.05,
       [](const ProgramSpec& c) {
         return has_layer(c, [](const LayerSpec& layer) { return layer.use == Use::recomputed; });
       }},
      {"a backward for some inputs, or autograd::grad", 0.06,
       [](const ProgramSpec& c) {
         return has_step(c, [](const Step& step) {
           return step.op == Op::grad || (is_backward(step.op) && step.inputs != Inputs::no);
         });
       }},
      {"a backward that creates a graph", 0.04,
       [](const ProgramSpec& c) {
         return has_step(
             c, [](const Step& step) { return is_backward(step.op) && step.create_graph; });
       }},
      {"ranks without inputs that shadow an average over the world", 0.05,
       [](const ProgramSpec& c) { return has_shadowed_average(c, JoinKind::world); }},
      {"ranks without inputs that shadow an average over the others", 0.05,
       [](const ProgramSpec& c) { return has_shadowed_average(c, JoinKind::live); }},
      {"a window of no_sync beside a rank without inputs", 0.02,
       [](const ProgramSpec& c) {
         return has_action(c, [](const Action& action) {
           return action.step.op == Op::forward && !action.is_synchronised &&
                  is_partly_shadowed(action);
         });
       }},
      {"unequal inputs that stop all ranks", 0.03,
       [](const ProgramSpec& c) {
         return has_action(c, [](const Action& action) {
           return std::find(action.is_ended.begin(), action.is_ended.end(), true) !=
                  action.is_ended.end();
         });
       }},
      {"two joins", 0.05,
       [](const ProgramSpec& c) {
         const auto actions = actions_of(c);
         return std::count_if(actions.begin(), actions.end(),
                              [](const Action& action) { return action.step.op == Op::join; }) > 1;
       }},
      {"sparse gradients", 0.1,
       [](const ProgramSpec& c) {
         return has_layer(c,
                          [](const LayerSpec& layer) { return layer.kind == LayerKind::sparse; });
       }},
      {"gradients in another layout", 0.1,
       [](const ProgramSpec& c) {
         return has_step(c, [](const Step& step) { return step.op == Op::relayout; });
       }},
      {"layers that are ignored or delayed", 0.1,
       [](const ProgramSpec& c) {
         return has_layer(
             c, [](const LayerSpec& layer) { return layer.travels != Travels::with_others; });
       }},
      {"another environment", 0.2,
       [](const ProgramSpec& c) { return c.environment != EnvironmentSpec(); }},
      {"several threads", 0.1, [](const ProgramSpec& c) { return c.environment.threads > 1; }},
      {"complex numbers", 0.025,
       [](const ProgramSpec& c) {
         return has_resolved_layer(
             c, [](const LayerSpec& layer) { return layer.dtype == Dtype::complex64; });
       }},
      {"NaN, infinity or a subnormal in one element", 0.06,
       [](const ProgramSpec& c) {
         return has_resolved_layer(
             c, [](const LayerSpec& layer) { return layer.element != Element::whole; });
       }},
      {"a buffer that is ignored", 0.05,
       [](const ProgramSpec& c) {
         return is_ignored(c, 0) ? !c.buffers.empty() : is_ignored(c, 1) && c.buffers.size() > 1;
       }},
      {"a communication hook", 0.1,
       [](const ProgramSpec& c) { return c.hook != BucketHook::none; }},
      {"a communication hook in a join", 0.01,
       [](const ProgramSpec& c) {
         return c.hook != BucketHook::none && (has_shadowed_average(c, JoinKind::live) ||
                                               has_shadowed_average(c, JoinKind::world));
       }},
      {"several models", 0.1, [](const ProgramSpec& c) { return c.models > 1; }},
      {"half precision", 0.05,
       [](const ProgramSpec& c) {
         return has_layer(c, [](const LayerSpec& layer) { return is_half(layer.dtype); });
       }},
      {"a penalty of a plain model beside the first parameter", 0.015,
       [](const ProgramSpec& c) {
         return has_action(c, [](const Action& action) {
           return action.step.op == Op::forward && action.step.penalty_alone && !action.uses_first;
         });
       }},
      {"a penalty alone beside a local forward in one pass", 0.006, has_penalty_beside_local},
      {"another process group in a join", 0.03, has_regrouped_join},
      {"an average that rounds", 0.06,
       [](const ProgramSpec& c) {
         return has_action(c, [](const Action& action) { return action.step.rounds; });
       }},
      {"models whose forwards ranks run in different orders", 0.02,
       [](const ProgramSpec& c) {
         return has_action(c, [](const Action& action) { return action.by_rank; });
       }},
      {"a parameter of 4,097 elements and more", 0.03, [](const ProgramSpec& c) {
         return has_layer(c, [](const LayerSpec& layer) { return layer.size >= 4097; });
       }}};
}

}  // namespace lockstep::scenarios::programs
