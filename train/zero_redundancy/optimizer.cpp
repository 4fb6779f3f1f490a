#include "ddp/errors.h"
#include "train/collectives/call.h"
#include "train/zero_redundancy/packed.h"
#include "train/zero_redundancy/partition.h"
#include "train/zero_redundancy_optimizer.h"

#include <c10/util/StringUtil.h>
#include <torch/torch.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>

namespace lockstep {

namespace {

namespace optim = torch::optim;
using ParamGroups = std::vector<optim::OptimizerParamGroup>;
constexpr const char* kName = "ZeroRedundancyOptimizer";

// Looks at parameters one by one, in the order of their groups.
class ParameterCheck {
 public:
  explicit ParameterCheck(ProgramCall& call) : call_(call) {}

  void add_known(const at::Tensor& parameter) {
    seen_.insert(parameter.unsafeGetTensorImpl());
    device_ = parameter.device();
  }

  // Says what this rank has, or why it cannot take part.
  void add(const std::string& name, const at::Tensor& parameter) {
    if (!parameter.defined()) return call_.refuse(name + " is undefined");
    call_.compare(name, c10::str(c10::toString(parameter.scalar_type()), " ", parameter.sizes(),
                                 " on ", c10::DeviceTypeName(parameter.device().type(), true)));
    if (parameter.layout() != at::kStrided || parameter.is_quantized())
      return call_.refuse(name + " is not dense");
    if (!parameter.is_leaf()) return call_.refuse(name + " is not a leaf");
    if (device_ && parameter.device() != *device_)
      return call_.refuse(c10::str(name, " is on ", parameter.device(), ", expected ", *device_,
                                   " as those before it"));
    if (seen_.contains(parameter.unsafeGetTensorImpl()))
      return call_.refuse(name + " is there twice");
    add_known(parameter);
  }

  bool is_empty() const { return seen_.empty(); }

 private:
  ProgramCall& call_;
  std::set<const at::TensorImpl*> seen_;
  std::optional<at::Device> device_;
};

void compare_group(ProgramCall& call, ParameterCheck& parameters, std::size_t index,
                   const optim::OptimizerParamGroup& group) {
  const std::string name = "group " + std::to_string(index);
  call.compare("the number of parameters in " + name, std::to_string(group.params().size()));
  for (std::size_t i = 0; i < group.params().size(); ++i)
    parameters.add("parameter " + std::to_string(i) + " in " + name, group.params()[i]);
}

bool holds(const optim::Optimizer& optimizer, const ParamGroups& groups) {
  return std::ranges::equal(
      optimizer.param_groups(), groups, [](const auto& one, const auto& other) {
        return std::ranges::equal(
            one.params(), other.params(),
            [](const at::Tensor& a, const at::Tensor& b) { return a.is_same(b); });
      });
}

// Returns nothing for a program's own optimizers, which have no learning rate.
std::string learning_rate_of(const optim::OptimizerParamGroup& group) {
  try {
    return exact_text(group.options().get_lr());
  } catch (const c10::Error&) {
    return "none";
  }
}

}  // namespace

ZeroRedundancyOptimizer::ZeroRedundancyOptimizer(c10::intrusive_ptr<c10d::ProcessGroup> group,
                                                 std::vector<at::Tensor> parameters,
                                                 OptimizerFactory make)
    : ZeroRedundancyOptimizer(std::move(group), ParamGroups{std::move(parameters)},
                              std::move(make)) {}

ZeroRedundancyOptimizer::ZeroRedundancyOptimizer(c10::intrusive_ptr<c10d::ProcessGroup> group,
                                                 const ParamGroups& groups, OptimizerFactory make)
    : group_(std::move(group)), make_(std::move(make)) {
  if (!make_) throw UsageError("ZeroRedundancyOptimizer: the factory of the optimizer is null");
  ProgramCall call(group_, kName, {});
  bytes_by_rank_.resize(static_cast<std::size_t>(group_->getSize()));
  call.compare("the number of groups", std::to_string(groups.size()));
  ParameterCheck parameters(call);
  for (std::size_t i = 0; i < groups.size(); ++i) compare_group(call, parameters, i, groups[i]);
  if (parameters.is_empty()) call.refuse("it has no parameters");
  if (call.is_possible()) {
    for (const auto& each : groups) take(each);
    call.refuse_if_it_throws("", [&] {
      const ParamGroups mine = part_of(group_->getRank(), groups);
      local_ = make_(mine);
      if (!local_) return call.refuse("its factory returns null");
      if (!holds(*local_, mine))
        return call.refuse("its factory returns an optimizer of other groups than it receives");
      if (dynamic_cast<const optim::LBFGS*>(local_.get()) != nullptr)
        return call.refuse("LBFGS updates all parameters by all gradients, and cannot be divided");
      call.compare("the optimizer", class_of(*local_));
    });
  }
  call.agree();
}

std::string ZeroRedundancyOptimizer::class_of(const optim::Optimizer& optimizer) {
  return c10::demangle(typeid(optimizer).name());
}

ZeroRedundancyOptimizer::~ZeroRedundancyOptimizer() = default;

void ZeroRedundancyOptimizer::add_param_group(const optim::OptimizerParamGroup& group) {
  ProgramCall call(group_, "ZeroRedundancyOptimizer::add_param_group", {});
  ParameterCheck parameters(call);
  for (const auto& each : groups_)
    for (const auto& known : each) parameters.add_known(known.tensor);
  compare_group(call, parameters, groups_.size(), group);
  call.agree();
  consolidated_.reset();
  take(group);
  optim::OptimizerParamGroup mine(parameters_of(groups_.back(), group_->getRank()));
  if (group.has_options()) mine.set_options(group.options().clone());
  local_->add_param_group(mine);
}

void ZeroRedundancyOptimizer::take(const optim::OptimizerParamGroup& group) {
  std::vector<std::size_t> bytes;
  for (const at::Tensor& each : group.params()) bytes.push_back(each.nbytes());
  const std::vector<int> owners = give_out(bytes, bytes_by_rank_);
  Group& taken = groups_.emplace_back();
  for (std::size_t i = 0; i < owners.size(); ++i)
    taken.push_back({.tensor = group.params()[i], .owner = owners[i]});
}

std::vector<at::Tensor> ZeroRedundancyOptimizer::parameters_of(const Group& group,
                                                               std::optional<int> owner) {
  std::vector<at::Tensor> out;
  for (const Parameter& each : group)
    if (!owner || each.owner == *owner) out.push_back(each.tensor);
  return out;
}

ParamGroups ZeroRedundancyOptimizer::part_of(std::optional<int> owner,
                                             const ParamGroups& with_options) const {
  ParamGroups out;
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    out.emplace_back(parameters_of(groups_[i], owner));
    if (with_options[i].has_options()) out[i].set_options(with_options[i].options().clone());
  }
  return out;
}

at::Tensor ZeroRedundancyOptimizer::step(const optim::Optimizer::LossClosure& closure) {
  at::Tensor loss;
  if (closure) {
    const at::AutoGradMode with_gradients(true);
    loss = closure();
  }
  announce();
  update();
  return loss;
}

std::string ZeroRedundancyOptimizer::name() const {
  return kName;
}

void ZeroRedundancyOptimizer::shadow() {
  update();
}

void ZeroRedundancyOptimizer::update() {
  consolidated_.reset();
  ProgramCall call(group_, "ZeroRedundancyOptimizer::step", {});
  const auto& groups = local_->param_groups();
  for (std::size_t i = 0; i < groups.size(); ++i)
    call.compare("the learning rate of group " + std::to_string(i), learning_rate_of(groups[i]));
  call.refuse_if_it_throws("", [&] { local_->step(); });
  call.agree();
  exchange_parameters(call);
}

// The parameters of two ranks at most are packed at a time.
void ZeroRedundancyOptimizer::exchange_parameters(ProgramCall& call) const {
  struct Sent {
    Packed packed;
    Operation broadcast;
  };
  const auto finish = [&](std::optional<Sent>& sent) {
    if (!sent) return;
    call.communicator().wait(sent->broadcast);
    sent->packed.write_bytes_into_tensors();
    sent.reset();
  };
  std::optional<Sent> before;
  for (int rank = 0; rank < group_->getSize(); ++rank) {
    std::vector<at::Tensor> parameters;
    for (const Group& each : groups_)
      std::ranges::move(parameters_of(each, rank), std::back_inserter(parameters));
    Packed packed(std::move(parameters));
    if (packed.bytes().numel() == 0) continue;
    if (rank == group_->getRank()) packed.write_tensors_into_bytes();
    auto broadcast = call.communicator().start_broadcast(
        packed.bytes(), call.name() + ", the parameters of rank " + std::to_string(rank), rank);
    finish(before);
    before.emplace(Sent{std::move(packed), std::move(broadcast)});
  }
  finish(before);
}

void ZeroRedundancyOptimizer::zero_grad(bool set_to_none) {
  for (const Group& group : groups_) {
    for (const Parameter& each : group) {
      at::Tensor& gradient = each.tensor.mutable_grad();
      if (!gradient.defined()) continue;
      if (set_to_none)
        gradient.reset();
      else
        gradient.detach_().zero_();
    }
  }
}

int ZeroRedundancyOptimizer::owner_of(const at::Tensor& parameter) const {
  for (const Group& group : groups_)
    for (const Parameter& each : group)
      if (each.tensor.is_same(parameter)) return each.owner;
  throw UsageError("ZeroRedundancyOptimizer::owner_of: it does not have this parameter");
}

}  // namespace lockstep
