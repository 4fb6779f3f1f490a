#include "scenarios/programs/run.h"

#include "scenarios/cases/devices.h"
#include "scenarios/cases/sentences.h"
#include "scenarios/programs/buffers.h"
#include "scenarios/programs/environment.h"
#include "scenarios/programs/layouts.h"
#include "scenarios/programs/logs.h"
#include "scenarios/programs/trained.h"
#include "scenarios/programs/values.h"

#include <torch/torch.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <memory>

namespace lockstep::scenarios::programs {

namespace {

// A model without a replica has nothing that a guard could keep local.
void inside_no_sync(Replica* replica, int guards, const std::function<void()>& act) {
  if (guards == 0 || !replica) return act();
  replica->no_sync([&] { inside_no_sync(replica, guards - 1, act); });
}

// Runs the program on one rank.
class Runner {
 public:
  Runner(const ProgramSpec& c, RankContext& here) : c_(c), here_(here), actions_(actions_of(c)) {
    for (int model = 0; model < c.models; ++model)
      models_.push_back(std::make_unique<Trained>(c, actions_, model, here));
  }

  void run() {
    for (auto action = actions_.begin(); action != actions_.end(); ++action)
      if (action->step.op == Op::join)
        run_join(action);
      else if (is_everywhere(c_, action->step))
        run_everywhere(action);
      else
        run_and_record(*action);
    for (auto& each : models_)
      if (each->replica()) each->replica()->finish();
    here_.enter(static_cast<int>(c_.steps.size()), kAfter);
    for (int model = 0; model < c_.models; ++model) {
      record(model);
      record_log(here_, model, at(model).replica());
    }
  }

 private:
  using Position = std::vector<Action>::const_iterator;

  void run_and_record(const Action& action) {
    here_.enter(action.number, word_of(action.step.op));
    std::string sentence;
    try {
      action.is_refused ? void(sentence = sentence_of_error([&] { run(action); })) : run(action);
    } catch (const PlannedException&) {
    }
    here_.enter(action.number, kAfter);
    if (action.is_refused) record_error(sentence);
    record(action);
  }

  void record(const Action& action) {
    record(action.model);
    if (shows_layouts(action)) record_layouts(here_, action.model, at(action.model).module());
    if (is_logged(action)) record_log(here_, action.model, at(action.model).replica());
  }

  // Moves `last` from the first action of its step to the last one.
  void run_everywhere(Position& last) {
    const auto first = last;
    while (last + 1 != actions_.end() && (last + 1)->number == first->number) ++last;
    const std::vector<Action> all(first, last + 1);
    here_.enter(first->number, word_of(first->step.op));
    if (first->step.op == Op::forward)
      run_forwards(all);
    else
      run_backward(all);
    here_.enter(first->number, kAfter);
    for (const auto& action : all) record(action);
  }

  void run_forwards(const std::vector<Action>& all) {
    const auto begin = all.front().by_rank ? static_cast<size_t>(here_.rank()) : 0;
    for (size_t i = 0; i < all.size(); ++i) run(all[(begin + i) % all.size()]);
  }

  void run_backward(const std::vector<Action>& all) {
    at::Tensor sum;
    for (const auto& action : all) {
      const auto loss = at(action.model).sum_of_losses(action.graphs);
      sum = sum.defined() ? sum + loss : loss;
    }
    sum.backward({}, /*retain_graph=*/false, all.front().step.create_graph);
    for (const auto& action : all) at(action.model).drop_graphs(action.closed);
  }

  // Moves `end` from its beginning to the end of the join. Steps in which this rank did not act it
  // records when the join is over.
  void run_join(Position& end) {
    const auto begin = end;
    while (end->step.op != Op::finish) ++end;
    const auto rank = static_cast<size_t>(here_.rank());
    auto& replica = *at(begin->model).replica();
    const auto join = [&] {
      replica.join(begin->step.uneven, [&] {
        here_.enter(begin->number, kAfter);
        record(begin->model);
        for (auto each = begin + 1; each != end; ++each)
          if (each->acts[rank] || each->is_stopped[rank]) run_and_record(*each);
      });
    };
    here_.enter(begin->number, word_of(begin->step.op));
    const auto sentence = end->is_ended[rank] ? sentence_of_error(join) : (join(), std::string());
    for (auto each = begin + 1; each != end; ++each)
      if (!each->acts[rank]) record_nothing(*each);
    finish(*end, sentence);
  }

  static std::string sentence_of_error(const std::function<void()>& act) {
    try {
      act();
    } catch (const Unsupported&) {
      throw;
    } catch (const std::exception& error) {
      return error.what();
    }
    return "";
  }

  void record_error(const std::string& sentence) {
    here_.record(kThrew, std::vector<int64_t>{sentence.empty() ? 0 : 1});
    record_sentence(here_, kSentence, sentence);
  }

  void finish(const Action& action, const std::string& sentence) {
    here_.enter(action.number, word_of(action.step.op));
    at(action.model).drop_graphs(action.closed);
    if (clears_gradients(c_, action, here_.rank())) at(action.model).drop_gradients();
    here_.enter(action.number, kAfter);
    record_error(sentence);
    if (action.number < static_cast<int>(c_.steps.size())) record(action.model);
  }

  void run(const Action& action) {
    const auto op = action.step.op;
    auto* const replica = at(action.model).replica();
    auto* const next = at(action.model + 1).replica();
    const bool guards = op != Op::wrap && op != Op::unwrap;
    const auto act = [&] {
      inside_no_sync(replica, guards ? action.step.no_sync : 0,
                     [&] { at(action.model).run(action); });
    };
    inside_no_sync(next, action.step.inside_another && c_.models > 1 ? 1 : 0, act);
  }

  Trained& at(int model) const { return *models_[static_cast<size_t>(model % c_.models)]; }

  void record(const std::string& name, const at::Tensor& value, const at::Tensor& like) {
    for (const auto& part : shown(name, value, form_of(like))) here_.record(part.name, part.value);
  }

  // This rank took no part in the action.
  void record_nothing(const Action& action) {
    here_.enter(action.number, kAfter);
    for_each_value(action.model, [&](const std::string& name, const at::Tensor&,
                                     const at::Tensor& like) { record(name, at::Tensor(), like); });
    if (shows_layouts(action)) record_no_layouts(here_, action.model, at(action.model).module());
    if (is_logged(action)) record_log(here_, action.model, nullptr);
  }

  void record(int number) {
    for_each_value(number, [&](const std::string& name, const at::Tensor& value,
                               const at::Tensor& like) { record(name, value, like); });
  }

  // Calls `act` with each name in records, its value, and a tensor of its form.
  void for_each_value(int number, auto&& act) {
    const auto& module = at(number).module();
    for (const auto& [name, value] : module.distinct_parameters()) {
      act(name_in_records(number, name + ".grad"), value.grad(), value);
      act(name_in_records(number, name), value, value);
    }
    for (size_t b = 0; b < c_.buffers.size(); ++b) {
      const auto name = "buffer" + std::to_string(b);
      const auto value = recorded_buffer(c_.buffers[b], module.named_buffers()[name]);
      act(name_in_records(number, name), value, value);
    }
  }

  const ProgramSpec& c_;
  RankContext& here_;
  const std::vector<Action> actions_;
  std::vector<std::unique_ptr<Trained>> models_;
};

// A forward moves its input to the device in a pass of its own thread: docs/semantics.md 1.4.
void refuse_penalties_on_other_devices(const ProgramSpec& c, const RankContext& here) {
  if (here.device().is_cpu()) return;
  for (const auto& step : c.steps)
    if (step.penalty_alone)
      throw Unsupported(
          "on a device a penalty for an input on the CPU is not known to be averaged");
}

bool has_a_synchronised_throw(const ProgramSpec& c) {
  const auto actions = actions_of(c);
  return std::any_of(actions.begin(), actions.end(), [](const auto& action) {
    return action.step.op == Op::throw_ && !action.is_local;
  });
}

}  // namespace

std::string name_in_records(int model, const std::string& name) {
  return "model" + std::to_string(model) + "." + name;
}

void run(const ProgramSpec& c, RankContext& here) {
  refuse_penalties_on_other_devices(c, here);
  if (has_a_synchronised_throw(c))
    refuse_where_the_host_does_not_wait(here, "a forward that throws");
  const Environment environment(c.environment);
  Runner(c, here).run();
}

}  // namespace lockstep::scenarios::programs
