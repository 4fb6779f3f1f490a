#include "train/checkpoint/optimizer_state.h"

#include <torch/torch.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>

namespace lockstep {

namespace {

namespace optim = torch::optim;
using OptionsPointer = std::unique_ptr<optim::OptimizerOptions>;
using StatePointer = std::unique_ptr<optim::OptimizerParamState>;

// float32, as in PyTorch, which counts exactly to 2^24.
at::Tensor step_tensor(std::int64_t step) {
  constexpr std::int64_t kExactInFloat = std::int64_t{1} << 24;
  return at::full({}, static_cast<double>(step), step <= kExactInFloat ? at::kFloat : at::kDouble);
}

// Adds the fields that only PyTorch's groups have, with its defaults.
void add_defaults_of_python(StateDict& group) {
  group.insert("maximize", false);
  group.insert("foreach", c10::IValue());
  group.insert("differentiable", false);
  group.insert("fused", c10::IValue());
}

struct Sgd {
  using Options = optim::SGDOptions;
  using State = optim::SGDParamState;
  static constexpr const char* kName = "SGD";

  static void write(const Options& from, StateDict& group) {
    group.insert("lr", from.lr());
    group.insert("momentum", from.momentum());
    group.insert("dampening", from.dampening());
    group.insert("weight_decay", from.weight_decay());
    group.insert("nesterov", from.nesterov());
  }
  static OptionsPointer read_options(const Entry& group) {
    auto to = std::make_unique<Options>(group.at("lr").number());
    to->momentum(group.at("momentum").number());
    to->dampening(group.at("dampening").number());
    to->weight_decay(group.at("weight_decay").number());
    to->nesterov(group.at("nesterov").flag());
    return to;
  }
  static void write(const State& from, StateDict& state) {
    if (from.momentum_buffer().defined())
      state.insert("momentum_buffer", for_archive(from.momentum_buffer()));
  }
  template <class Read>
  static StatePointer read_state(const Entry& /*state*/, const Read& tensor) {
    auto to = std::make_unique<State>();
    const at::Tensor buffer = tensor("momentum_buffer", /*is_required=*/false);
    if (!buffer.defined()) return nullptr;  // a step without momentum
    to->momentum_buffer(buffer);
    return to;
  }
};

template <class AdamOptions, class AdamState, bool kDecoupled>
struct AdamKind {
  using Options = AdamOptions;
  using State = AdamState;
  static constexpr const char* kName = kDecoupled ? "AdamW" : "Adam";

  static void write(const Options& from, StateDict& group) {
    const auto [one, two] = from.betas();
    group.insert("lr", from.lr());
    group.insert("betas", c10::ivalue::Tuple::create({one, two}));
    group.insert("eps", from.eps());
    group.insert("weight_decay", from.weight_decay());
    group.insert("amsgrad", from.amsgrad());
    group.insert("capturable", false);
    group.insert("decoupled_weight_decay", kDecoupled);
  }
  static OptionsPointer read_options(const Entry& group) {
    const Entry decoupled = group.at("decoupled_weight_decay");  // older files lack it
    if (decoupled.exists() && decoupled.flag() != kDecoupled)
      throw std::runtime_error("its optimizer is " + std::string(kDecoupled ? "Adam" : "AdamW") +
                               ", expected " + kName);
    const auto betas = group.at("betas").numbers();
    if (betas.size() != 2) throw std::runtime_error(group.at("betas").what() + " are not two");
    auto to = std::make_unique<Options>(group.at("lr").number());
    to->betas(std::make_tuple(betas[0], betas[1]));
    to->eps(group.at("eps").number());
    to->weight_decay(group.at("weight_decay").number());
    to->amsgrad(group.at("amsgrad").flag());
    return to;
  }
  static void write(const State& from, StateDict& state) {
    state.insert("step", step_tensor(from.step()));
    state.insert("exp_avg", for_archive(from.exp_avg()));
    state.insert("exp_avg_sq", for_archive(from.exp_avg_sq()));
    if (from.max_exp_avg_sq().defined())
      state.insert("max_exp_avg_sq", for_archive(from.max_exp_avg_sq()));
  }
  template <class Read>
  static StatePointer read_state(const Entry& state, const Read& tensor) {
    auto to = std::make_unique<State>();
    to->step(state.at("step").whole_number());
    to->exp_avg(tensor("exp_avg", true));
    to->exp_avg_sq(tensor("exp_avg_sq", true));
    to->max_exp_avg_sq(tensor("max_exp_avg_sq", false));
    return to;
  }
};

using Adam = AdamKind<optim::AdamOptions, optim::AdamParamState, false>;
using AdamW = AdamKind<optim::AdamWOptions, optim::AdamWParamState, true>;

// Calls `use` with the kind of `optimizer`; returns whether it is a known one.
template <class Use>
bool with_kind_of(const optim::Optimizer& optimizer, const Use& use) {
  if (dynamic_cast<const optim::SGD*>(&optimizer) != nullptr) return use(Sgd()), true;
  if (dynamic_cast<const optim::Adam*>(&optimizer) != nullptr) return use(Adam()), true;
  if (dynamic_cast<const optim::AdamW*>(&optimizer) != nullptr) return use(AdamW()), true;
  return false;
}

template <class Kind>
StateDict state_of(const optim::Optimizer& optimizer) {
  StateDict states = empty_dict();
  c10::List<c10::IValue> groups(c10::AnyType::get());
  std::int64_t place = 0;
  for (const auto& each : optimizer.param_groups()) {
    StateDict group = empty_dict();
    Kind::write(static_cast<const typename Kind::Options&>(each.options()), group);
    add_defaults_of_python(group);
    c10::List<c10::IValue> places(c10::AnyType::get());
    for (const at::Tensor& parameter : each.params()) {
      const auto found = optimizer.state().find(parameter.unsafeGetTensorImpl());
      if (found != optimizer.state().end()) {
        StateDict state = empty_dict();
        Kind::write(static_cast<const typename Kind::State&>(*found->second), state);
        states.insert(place, state);
      }
      places.push_back(place++);
    }
    group.insert("params", places);
    groups.push_back(group);
  }
  StateDict all = empty_dict();
  all.insert("state", states);
  all.insert("param_groups", groups);
  return all;
}

at::Tensor tensor_for(const at::Tensor& parameter, const Entry& entry) {
  const at::Tensor tensor = entry.tensor();
  if (tensor.sizes() != parameter.sizes() || tensor.dtype() != parameter.dtype())
    throw std::runtime_error(entry.what() + " is " + c10::toString(tensor.scalar_type()) + " " +
                             c10::str(tensor.sizes()) + ", expected the parameter's " +
                             c10::toString(parameter.scalar_type()) + " " +
                             c10::str(parameter.sizes()));
  return tensor.clone(at::MemoryFormat::Contiguous).to(parameter.device());
}

template <class Kind>
StatePointer planned_state(const Entry& state, const at::Tensor& parameter) {
  return Kind::read_state(state, [&](const char* name, bool is_required) {
    const Entry entry = state.at(name);
    if (!is_required && entry.is_nothing()) return at::Tensor();
    return tensor_for(parameter, entry);
  });
}

// All that is loaded, until it is assigned.
struct Loaded {
  std::vector<OptionsPointer> options;
  std::vector<std::pair<at::Tensor, StatePointer>> states;
};

void assign(Loaded& loaded, optim::Optimizer& optimizer) {
  for (std::size_t i = 0; i < loaded.options.size(); ++i)
    optimizer.param_groups()[i].set_options(std::move(loaded.options[i]));
  optimizer.state().clear();
  for (auto& [parameter, state] : loaded.states)
    optimizer.state()[parameter.unsafeGetTensorImpl()] = std::move(state);
}

template <class Kind>
Assignments planned(const Entry& all, optim::Optimizer& optimizer) {
  const auto groups = all.at("param_groups").list();
  auto& mine = optimizer.param_groups();
  if (groups.size() != mine.size())
    throw std::runtime_error("its optimizer has " + std::to_string(groups.size()) +
                             " param groups, expected " + std::to_string(mine.size()));
  const auto loaded = std::make_shared<Loaded>();
  for (std::size_t i = 0; i < mine.size(); ++i) {
    const Entry group(groups.get(i), "param group " + std::to_string(i));
    const auto places = group.at("params").list();
    if (places.size() != mine[i].params().size())
      throw std::runtime_error(group.what() + " has " + std::to_string(places.size()) +
                               " parameters, expected " + std::to_string(mine[i].params().size()));
    const Entry maximize = group.at("maximize");
    if (maximize.exists() && maximize.flag())
      throw std::runtime_error(maximize.what() + " is True, which LibTorch's optimizers cannot");
    loaded->options.push_back(Kind::read_options(group));
    for (std::size_t j = 0; j < places.size(); ++j) {
      const at::Tensor& parameter = mine[i].params()[j];
      const std::int64_t place = Entry(places.get(j), group.at("params").what()).whole_number();
      const Entry state = all.at("state").at(place);
      if (!state.exists()) continue;
      if (auto one = planned_state<Kind>(state, parameter))
        loaded->states.emplace_back(parameter, std::move(one));
    }
  }
  return {[loaded, &optimizer] { assign(*loaded, optimizer); }};
}

}  // namespace

std::optional<std::string> problem_with(const optim::Optimizer& optimizer) {
  if (with_kind_of(optimizer, [](auto) {})) return std::nullopt;
  return "the optimizer is a " + c10::demangle(typeid(optimizer).name()) +
         ", expected SGD, Adam or AdamW; save others with torch::save";
}

StateDict state_of_optimizer(const optim::Optimizer& optimizer) {
  StateDict state = empty_dict();
  with_kind_of(optimizer, [&](auto kind) { state = state_of<decltype(kind)>(optimizer); });
  return state;
}

Assignments assignments_from(const Entry& state, optim::Optimizer& optimizer) {
  Assignments assignments;
  with_kind_of(optimizer,
               [&](auto kind) { assignments = planned<decltype(kind)>(state, optimizer); });
  return assignments;
}

}  // namespace lockstep
