#include "scenarios/checkpoint/python_training.h"

#include "scenarios/averaging/divided.h"
#include "scenarios/cases/tensors.h"
#include "scenarios/checkpoint/optimizer_numbers.h"

namespace lockstep::scenarios::checkpoint {

namespace {

namespace optim = torch::optim;
using Kind = PythonObject::Kind;

// Small whole numbers, which every dtype holds.
at::Tensor numbers(const PythonFile& c, PythonTraining::Values values, size_t index) {
  const auto tensor = tensors_of(c)[index];
  const Counter first{
      .seed = c.seed + static_cast<uint64_t>(values), .stream = Stream::parameter, .step = index};
  constexpr int64_t kMost = 100;
  auto out = whole_numbers(first, kMost, tensor.shape);
  if (tensor.dtype == Dtype::uint8) out = out.abs();
  if (tensor.dtype == Dtype::bool_) out = out.remainder(2);
  return out.to(scalar_type(tensor.dtype));
}

// The same values in storages that rows alone do not fill.
at::Tensor laid_out(const at::Tensor& values, Layout layout, const at::Tensor& first) {
  if (layout == Layout::shared && first.defined() && first.scalar_type() == values.scalar_type() &&
      first.numel() == values.numel() && first.is_contiguous())
    return first.view(values.sizes()).copy_(values);
  if (layout == Layout::transposed && values.dim() >= 2)
    return values.transpose(-1, -2).contiguous().transpose(-1, -2);
  if (layout == Layout::behind) {
    constexpr int64_t kBefore = 3;
    const auto storage = at::zeros({values.numel() + kBefore + 1}, values.options());
    return storage.narrow(0, kBefore, values.numel()).view(values.sizes()).copy_(values);
  }
  return values.contiguous().clone();
}

at::Tensor as_row(const std::vector<double>& values) {
  return torch::tensor(values, at::kDouble);
}

bool is_adam(OptimizerKind kind) {
  return kind != OptimizerKind::sgd && kind != OptimizerKind::momentum;
}

at::ScalarType another_dtype(at::ScalarType dtype) {
  return dtype == at::kDouble ? at::kFloat : at::kDouble;
}

size_t parameters_in(const PythonFile& c) {
  size_t count = 0;
  for (const auto& each : tensors_of(c)) count += each.is_buffer ? 0 : 1;
  return count;
}

size_t groups_in(const PythonFile& c) {
  return std::min(static_cast<size_t>(c.groups), parameters_in(c));
}

bool is_in_part(const PythonFile& c, size_t index) {
  return c.has_module && index % 2 == 1;
}

}  // namespace

std::vector<WrittenTensor> tensors_of(const PythonFile& c) {
  auto out = c.tensors.empty() ? std::vector<WrittenTensor>{{}} : c.tensors;
  for (auto& each : out)
    if (!at::isFloatingType(scalar_type(each.dtype))) each.is_buffer = true;
  return out;
}

std::string name_of_tensor(const PythonFile& c, size_t index) {
  return (is_in_part(c, index) ? "module.w" : "w") + std::to_string(index);
}

bool has_rest(const PythonFile& c) {
  return c.around != Around::nothing;
}

bool has_optimizer(const PythonFile& c) {
  return has_rest(c) && c.optimizer != OptimizerKind::none && parameters_in(c) > 0;
}

int damaged_rank(const PythonFile& c) {
  return c.rank < 0 ? -1 : c.rank % c.world.size;
}

const char* damaged_state(const PythonFile& c) {
  if (!is_adam(c.optimizer)) return "momentum_buffer";
  return c.entry % 2 == 0 ? "exp_avg" : "exp_avg_sq";
}

Damage damage_of(const PythonFile& c) {
  const auto unless = [&](bool lacks) { return lacks ? Damage::none : c.damage; };
  switch (c.damage) {
    case Damage::lacks_an_entry:
      return unless(tensors_of(c).size() < 2);  // no tensor at all is no state_dict
    case Damage::counts_a_fraction:
      return unless(!has_rest(c));
    case Damage::lacks_a_group:
    case Damage::maximizes:
      return unless(!has_optimizer(c));
    case Damage::lacks_a_state:
    case Damage::is_of_another_optimizer:
      return unless(!has_optimizer(c) || !is_adam(c.optimizer));
    case Damage::has_a_state_of_another_shape:
      return unless(!has_optimizer(c) || c.optimizer == OptimizerKind::sgd);
    case Damage::has_other_values:
      return unless(damaged_rank(c) < 0 || c.world.size == 1 || !has_rest(c));
    default:
      return c.damage;
  }
}

PythonTraining::PythonTraining(const PythonFile& c, Values values)
    : case_(c), model_(std::make_shared<torch::nn::Module>()) {
  const auto tensors = tensors_of(c);
  std::vector<at::Tensor> parameters;
  const auto part = std::make_shared<torch::nn::Module>();
  if (c.has_module) model_->register_module("module", part);
  for (size_t i = 0; i < tensors.size(); ++i) {
    auto& module = is_in_part(c, i) ? *part : *model_;
    const auto name = "w" + std::to_string(i);
    const auto value = numbers(c, values, i);
    tensors_.push_back(tensors[i].is_buffer ? module.register_buffer(name, value)
                                            : module.register_parameter(name, value.clone()));
    if (!tensors[i].is_buffer) parameters.push_back(tensors_.back());
    laid_out_.push_back(
        laid_out(value, tensors[i].layout, laid_out_.empty() ? at::Tensor() : laid_out_.front()));
  }
  // A tensor that lies in the storage of the first one has its values.
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < tensors.size(); ++i) tensors_[i].detach().copy_(laid_out_[i]);
  const bool is_other = values == Values::others;
  if (has_optimizer(c)) {
    optimizer_ = averaging::made(
        c.optimizer, averaging::param_groups(c.optimizer, parameters, groups_in(c), !is_other));
    for (auto& each : parameters) each.mutable_grad() = at::ones_like(each);
    std::vector<at::Tensor> values_before;
    for (const auto& each : tensors_) values_before.push_back(each.detach().clone());
    if (!is_other) optimizer_->step();
    for (size_t i = 0; i < tensors_.size(); ++i) tensors_[i].detach().copy_(values_before[i]);
  }
  if (has_rest(c) && !is_other) {
    step = (int64_t{1} << c.count_log2) + static_cast<int64_t>(values);
    epoch = step - 2;
  }
}

PythonObject PythonTraining::state_dict(Damage damage) const {
  auto out = PythonObject::of(case_.is_ordered ? Kind::ordered_dict : Kind::dict);
  const std::string prefix = case_.has_prefix ? "module." : "";
  const auto damaged = static_cast<size_t>(case_.entry) % tensors_.size();
  for (size_t i = 0; i < tensors_.size(); ++i) {
    auto value = laid_out_[i];
    const bool is_damaged = i == damaged;
    if (is_damaged && damage == Damage::lacks_an_entry) continue;
    if (is_damaged && damage == Damage::has_another_shape) value = value.unsqueeze(0);
    if (is_damaged && damage == Damage::has_another_dtype)
      value = value.is_complex() ? at::real(value).to(at::kDouble)
                                 : value.to(another_dtype(value.scalar_type()));
    auto object = PythonObject::of(value);
    if (case_.has_parameters && !tensors_of(case_)[i].is_buffer) object.kind = Kind::parameter;
    out.add(prefix + name_of_tensor(case_, i), std::move(object));
  }
  if (damage == Damage::has_another_entry)
    out.add(prefix + "further", PythonObject::of(at::zeros({1})));
  return out;
}

PythonObject PythonTraining::settings_of(const optim::OptimizerParamGroup& group,
                                         Damage damage) const {
  const auto values = settings(group.options());
  auto out = PythonObject::of(Kind::dict);
  const auto real = [&](const char* name, size_t i) { out.add(name, PythonObject::of(values[i])); };
  const auto flag = [&](const char* name, bool is) { out.add(name, PythonObject::of(is)); };
  real("lr", 0);
  if (is_adam(case_.optimizer)) {
    out.add("betas", PythonObject::of(Kind::tuple,
                                      {PythonObject::of(values[1]), PythonObject::of(values[2])}));
    real("eps", 3);
    real("weight_decay", 4);
    flag("amsgrad", values[5] != 0);
  } else {
    real("momentum", 1);
    real("dampening", 2);
    real("weight_decay", 3);
    flag("nesterov", values[4] != 0);
  }
  const bool is_other = damage == Damage::is_of_another_optimizer;
  if (is_other || (!case_.is_older && is_adam(case_.optimizer)))
    flag("decoupled_weight_decay", (case_.optimizer == OptimizerKind::adamw) != is_other);
  if (damage == Damage::maximizes || !case_.is_older) flag("maximize", damage == Damage::maximizes);
  if (case_.is_older) return out;
  out.add("foreach", PythonObject::of(Kind::none));
  flag("capturable", false);
  flag("differentiable", false);
  out.add("fused", PythonObject::of(Kind::none));
  return out;
}

PythonObject PythonTraining::state_of(const at::Tensor& parameter, Damage damage) const {
  const auto kept = kept_for(*optimizer_, parameter);
  auto out = PythonObject::of(Kind::dict);
  if (!kept) return out;
  if (kept->steps >= 0)
    out.add("step", case_.is_older ? PythonObject::of(kept->steps)
                                   : PythonObject::of(at::full({}, kept->steps, at::kFloat)));
  for (const auto& [name, tensor] : kept->tensors) {
    const bool is_damaged = std::string_view(name) == damaged_state(case_);
    if (is_damaged && damage == Damage::lacks_a_state) continue;
    const bool is_reshaped = is_damaged && damage == Damage::has_a_state_of_another_shape;
    out.add(name, PythonObject::of(is_reshaped ? tensor.detach().unsqueeze(0) : tensor.detach()));
  }
  return out;
}

PythonObject PythonTraining::optimizer_state(Damage damage) const {
  auto states = PythonObject::of(Kind::dict), groups = PythonObject::of(Kind::list);
  int64_t place = 0;
  for (const auto& group : optimizer_->param_groups()) {
    auto object = settings_of(group, damage);
    auto places = PythonObject::of(Kind::list);
    for (const auto& parameter : group.params()) {
      if (auto state = state_of(parameter, damage); !state.items.empty())
        states.add(place, std::move(state));
      places.items.push_back(PythonObject::of(place++));
    }
    object.add("params", std::move(places));
    groups.items.push_back(std::move(object));
  }
  if (damage == Damage::lacks_a_group) groups.items.pop_back();
  auto out = PythonObject::of(Kind::dict);
  out.add("state", std::move(states));
  out.add("param_groups", std::move(groups));
  return out;
}

PythonObject PythonTraining::object(Damage damage) const {
  auto model = state_dict(damage);
  const auto a_class = PythonObject{.kind = Kind::named, .text = "argparse.Namespace"};
  if (!has_rest(case_)) {
    if (damage == Damage::holds_a_class) model.add("args", a_class);
    return model;
  }
  const std::string suffix = case_.around == Around::model ? "" : "_state_dict";
  auto out = PythonObject::of(Kind::dict);
  if (damage == Damage::counts_a_fraction)
    out.add("step", PythonObject::of(0.5));
  else
    out.add("step", PythonObject::of(step));
  out.add("model" + suffix, std::move(model));
  if (has_optimizer(case_)) out.add("optimizer" + suffix, optimizer_state(damage));
  out.add("epoch", PythonObject::of(epoch));
  if (damage == Damage::holds_a_class) out.add("args", a_class);
  return out;
}

std::vector<std::pair<std::string, at::Tensor>> PythonTraining::recorded() const {
  std::vector<std::pair<std::string, at::Tensor>> out;
  for (size_t i = 0; i < tensors_.size(); ++i)
    out.emplace_back(name_of_tensor(case_, i), tensors_[i].detach());
  if (!has_rest(case_)) return out;
  out.emplace_back("epoch and step", torch::tensor(std::vector<int64_t>{epoch, step}, at::kLong));
  if (!has_optimizer(case_)) return out;
  std::vector<double> all;
  for (const auto& group : optimizer_->param_groups())
    for (const double value : settings(group.options())) all.push_back(value);
  out.emplace_back("settings", as_row(all));
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (tensors_of(case_)[i].is_buffer) continue;
    std::vector<at::Tensor> parts;
    if (const auto kept = kept_for(*optimizer_, tensors_[i])) {
      parts.push_back(as_row({static_cast<double>(kept->steps)}));
      for (const auto& [_, tensor] : kept->tensors)
        parts.push_back(tensor.detach().to(at::kDouble).flatten());
    }
    out.emplace_back("state of " + name_of_tensor(case_, i),
                     parts.empty() ? as_row({}) : at::cat(parts));
  }
  return out;
}

std::vector<std::string> recorded_names(const PythonFile& c) {
  std::vector<std::string> out;
  const auto tensors = tensors_of(c);
  for (size_t i = 0; i < tensors.size(); ++i) out.push_back(name_of_tensor(c, i));
  if (has_rest(c)) out.emplace_back("epoch and step");
  if (!has_optimizer(c)) return out;
  out.emplace_back("settings");
  for (size_t i = 0; i < tensors.size(); ++i)
    if (!tensors[i].is_buffer) out.push_back("state of " + name_of_tensor(c, i));
  return out;
}

}  // namespace lockstep::scenarios::checkpoint
