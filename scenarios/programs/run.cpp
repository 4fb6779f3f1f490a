#include "scenarios/programs/run.h"

#include "scenarios/programs/buffers.h"
#include "scenarios/programs/environment.h"
#include "scenarios/programs/lifecycle.h"
#include "scenarios/programs/values.h"

#include <torch/torch.h>

#include <cmath>
#include <exception>
#include <map>
#include <thread>

namespace lockstep::scenarios::programs {

namespace {

// One model on this rank.
struct Trained {
  std::shared_ptr<LayeredModel> module;
  std::unique_ptr<Replica> replica;  // null between unwrap and wrap
  std::unique_ptr<torch::optim::SGD> optimizer;
  std::map<int, at::Tensor> losses;  // of open graphs, by the number of the forward's step
};

// A model without a replica has nothing that a guard could keep local.
void inside_no_sync(Replica* replica, int guards, const std::function<void()>& act) {
  if (guards == 0 || !replica) return act();
  replica->no_sync([&] { inside_no_sync(replica, guards - 1, act); });
}

void on_another_thread(const std::function<void()>& act) {
  std::exception_ptr thrown;
  std::thread([&] {
    try {
      act();
    } catch (...) {
      thrown = std::current_exception();
    }
  }).join();
  if (thrown) std::rethrow_exception(thrown);
}

// Runs the programme on one rank.
class Runner {
 public:
  // Gradients of a pass with create_graph hold their parameters.
  ~Runner() {
    for (auto& model : models_)
      for (auto& each : model.module->distinct_parameters()) each.value.mutable_grad().reset();
  }
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  Runner(const Programme& c, RankContext& here) : c_(c), here_(here), actions_(actions_of(c)) {
    for (int model = 0; model < c.models; ++model) {
      auto& each = models_.emplace_back();
      each.module = std::make_shared<LayeredModel>(c, model, build_seed(c, here.rank()));
      each.replica = wrapped(each, here.group());
      std::vector<at::Tensor> parameters;
      for (const auto& parameter : each.module->distinct_parameters())
        parameters.push_back(parameter.value);
      each.optimizer =
          std::make_unique<torch::optim::SGD>(parameters, std::ldexp(1.0, c.learning_rate_log2));
    }
  }

  void run() {
    for (const auto& action : actions_) {
      here_.enter(action.number, action.step.op);
      try {
        run(action);
      } catch (const PlannedException&) {
      }
      here_.enter(action.number, kAfter);
      record(action.model);
    }
    for (auto& each : models_)
      if (each.replica) each.replica->finish();
    here_.enter(static_cast<int>(c_.steps.size()), kAfter);
    for (int model = 0; model < c_.models; ++model) record(model);
  }

 private:
  void run(const Action& action) {
    const auto& op = action.step.op;
    auto* const replica = replica_of(action.model);
    auto* const next = replica_of(action.model + 1);
    const bool guards = op != "wrap" && op != "unwrap";
    const auto act = [&] {
      inside_no_sync(replica, guards ? action.step.no_sync : 0, [&] { run_inside(action); });
    };
    inside_no_sync(next, action.step.inside_another && c_.models > 1 ? 1 : 0, act);
  }

  Replica* replica_of(int model) const {
    return models_[static_cast<size_t>(model % c_.models)].replica.get();
  }

  void run_inside(const Action& action) {
    auto& model = models_[static_cast<size_t>(action.model)];
    const auto& op = action.step.op;
    if (op == "forward") model.losses[action.number] = forward(action, *model.replica);
    if (op.starts_with("backward")) backward(action, model);
    if (op == "grad") grad(action, model);
    if (op == "bare" && has_bit(action.step.ranks, here_.rank())) bare(action, *model.module);
    if (op == "evaluate" || op == "infer") evaluate(action, model);
    if (op == "throw") model.replica->forward(prepared(action));
    if (op.starts_with("zero")) model.module->zero_grad(/*set_to_none=*/op == "zero_none");
    if (op == "scale" && has_bit(action.step.ranks, here_.rank())) scale(*model.module);
    if (op == "update" || (op == "update_if_finite" && is_finite(model))) model.optimizer->step();
    if (op == "relayout" && has_bit(action.step.ranks, here_.rank())) relayout(*model.module);
    if (op == "load") load(c_, action, here_.rank(), *model.module);
    if (op == "renew") renew(*model.module);
    if (op == "convert") convert(*model.module);
    if (op == "freeze" || op == "unfreeze") freeze(action, model);
    if (op == "wrap" || op == "unwrap") model.replica.reset();
    const auto group =
        op == "wrap" || op == "regroup" ? group_of(c_, here_, action.step.cut) : Group();
    if (op == "wrap") model.replica = wrapped(model, group);
    if (op == "regroup") model.replica->update_process_group(group);
  }

  std::unique_ptr<Replica> wrapped(const Trained& model, const Group& group) const {
    const torch::AutoGradMode gradients(!c_.environment.wraps_without_gradients);
    return wrap(here_, model.module, model.module->options(c_.options), group);
  }

  static void freeze(const Action& action, Trained& model) {
    model.module->set_trainable(action.step.layer, action.step.op == "unfreeze");
    if (model.replica) model.replica->update_trainable_parameters();
  }

  // The model's next forward is this one.
  at::Tensor prepared(const Action& action) {
    auto& module = *models_[static_cast<size_t>(action.model)].module;
    module.call = call_of(c_, action, here_.rank());
    return input_of(c_, action, here_.rank(), module.input_count());
  }

  at::Tensor loss(const Action& action, const std::vector<at::Tensor>& outputs) {
    const auto& module = *models_[static_cast<size_t>(action.model)].module;
    auto output = sum_of_outputs(c_, action, here_.rank(), outputs);
    if (action.step.penalty) output = output + penalty_of(output, module);
    if (action.step.direct != "no")
      output = output + (module.first().sum() * kDirect).to(output.device(), at::kDouble);
    return output * weight_of(c_, actions_, action, here_.rank());
  }

  at::Tensor forward(const Action& action, Replica& replica) {
    const auto input = prepared(action);
    if (c_.nested) return loss(action, listed(replica.nested_outputs(input)));
    return loss(action, c_.outputs == 1 ? std::vector<at::Tensor>{replica.forward(input)}
                                        : replica.outputs(input));
  }

  void bare(const Action& action, LayeredModel& module) {
    loss(action, module.outputs(prepared(action).to(here_.device()))).backward();
  }

  void backward(const Action& action, Trained& model) {
    at::Tensor sum;
    for (const int graph : action.graphs) {
      const auto& each = model.losses.at(graph);
      sum = sum.defined() ? sum + each : each;
    }
    const bool retains = action.closed.empty();
    const auto& step = action.step;
    const bool is_plain = !retains && !step.create_graph && step.inputs == "no" && model.replica;
    const auto act = [&] {
      if (is_plain) return model.replica->backward(sum);
      auto inputs = trainable(*model.module);
      if (step.inputs == "first") inputs = {model.module->first()};
      sum.backward({}, retains, step.create_graph,
                   step.inputs == "no" ? std::nullopt : std::optional<at::TensorList>(inputs));
    };
    action.step.thread&& here_.device().is_cpu() ? on_another_thread(act) : act();
    for (const int graph : action.closed) model.losses.erase(graph);
  }

  static std::vector<at::Tensor> trainable(const LayeredModel& model) {
    std::vector<at::Tensor> out;
    for (const auto& each : model.distinct_parameters())
      if (each.value.requires_grad()) out.push_back(each.value);
    return out;
  }

  // What it returns is the caller's, and may be overwritten.
  static void grad(const Action& action, const Trained& model) {
    const auto returned =
        torch::autograd::grad({model.losses.at(action.graphs.front())}, trainable(*model.module),
                              {}, /*retain_graph=*/true, action.step.create_graph,
                              /*allow_unused=*/true);
    const torch::NoGradGuard no_grad;
    for (const auto& each : returned)
      if (each.defined()) each.mul_(kScale);
  }

  void evaluate(const Action& action, Trained& model) {
    const auto input = prepared(action);
    model.module->eval();
    if (action.step.op == "infer") {
      const c10::InferenceMode inference;
      model.replica->forward(input);
    } else {
      const torch::NoGradGuard no_grad;
      model.replica->forward(input);
    }
    model.module->train();
  }

  static void scale(const LayeredModel& module) {
    const torch::NoGradGuard no_grad;
    for (const auto& each : module.distinct_parameters())
      if (each.value.grad().defined()) each.value.grad().mul_(kScale);
  }

  static bool is_finite(const at::Tensor& gradient) {
    const auto dense = gradient.is_sparse() ? gradient.to_dense() : gradient;
    return dense.isfinite().all().item<bool>();
  }

  static bool is_finite(const Trained& model) {
    for (const auto& each : model.module->distinct_parameters())
      if (each.value.grad().defined() && !is_finite(each.value.grad())) return false;
    return true;
  }

  void record(const std::string& name, const at::Tensor& value, const at::Tensor& like) {
    for (const auto& part : shown(name, value, form_of(like))) here_.record(part.name, part.value);
  }

  void record(int number) {
    const auto& module = *models_[static_cast<size_t>(number)].module;
    for (const auto& [name, value] : module.distinct_parameters()) {
      record(name_in_records(number, name + ".grad"), value.grad(), value);
      record(name_in_records(number, name), value, value);
    }
    for (size_t b = 0; b < c_.buffers.size(); ++b) {
      const auto name = "buffer" + std::to_string(b);
      const auto value = recorded_buffer(c_.buffers[b], module.named_buffers()[name]);
      record(name_in_records(number, name), value, value);
    }
  }

  const Programme& c_;
  RankContext& here_;
  const std::vector<Action> actions_;
  std::vector<Trained> models_;
};

void refuse_sparse_gradients_on_other_devices(const Programme& c, RankContext& here) {
  if (here.device().is_cpu() || here.device().is_cuda()) return;
  for (const auto& layer : c.layers)
    if (layer.kind == "sparse") throw Unsupported("this device has no sparse tensors");
}

// With a backend that the host does not wait for, a synchronised forward that threw ends the
// instance.
void refuse_where_the_host_does_not_wait(const Programme& c, RankContext& here) {
  if (here.device().is_cpu()) return;
  const auto backend = here.group()->getBackend(here.device().type())->getBackendName();
  if (backend == "gloo") return;
  for (const auto& action : actions_of(c))
    if (action.step.op == "throw" && action.step.no_sync == 0)
      throw Unsupported("on a device over " + backend +
                        " a forward that throws ends the instance (docs/semantics.md 2.8)");
}

}  // namespace

std::string name_in_records(int model, const std::string& name) {
  return "model" + std::to_string(model) + "." + name;
}

void run(const Programme& c, RankContext& here) {
  refuse_sparse_gradients_on_other_devices(c, here);
  refuse_where_the_host_does_not_wait(c, here);
  const Environment environment(c.environment);
  Runner(c, here).run();
}

}  // namespace lockstep::scenarios::programs
