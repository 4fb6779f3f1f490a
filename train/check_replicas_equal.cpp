#include "train/check_replicas_equal.h"

#include "ddp/consistency/equal_values.h"
#include "ddp/distributed_sampler.h"
#include "ddp/errors.h"
#include "train/checkpoint/optimizer_state.h"
#include "train/checkpoint/progress.h"
#include "train/collectives/call.h"

#include <torch/torch.h>

#include <map>
#include <string>
#include <vector>

namespace lockstep {

namespace {

// Compares the parts of replicas, in this order.
class Parts {
 public:
  Parts(ProgramCall& call, const ReplicaParts& given) : call_(call) {
    call.compare("the parts", std::string(given.model ? "a model" : "no model") +
                                  (given.model && given.buffers ? " with its buffers" : "") +
                                  (given.optimizer ? ", an optimizer" : "") +
                                  (given.sampler ? ", a sampler" : ""));
    if (!given.model && !given.optimizer && !given.sampler)
      call.refuse("no model, optimizer or sampler is given");
    if (given.model) add_model(*given.model, given.buffers);
    if (given.optimizer) {
      if (const auto problem = problem_with(*given.optimizer)) {
        call.refuse(*problem);
      } else {
        add_optimizer(*given.optimizer);
      }
    }
    if (given.sampler) add_sampler(*given.sampler);
  }

  const std::vector<NamedTensor>& tensors() const { return tensors_; }

 private:
  void add_model(const torch::nn::Module& model, bool has_buffers) {
    const auto parameters = model.named_parameters();
    call_.compare("the number of parameters", std::to_string(parameters.size()));
    for (const auto& each : parameters) {
      names_[each.value().unsafeGetTensorImpl()] = "parameter '" + each.key() + "'";
      add("parameter '" + each.key() + "'", each.value());
    }
    if (!has_buffers) return;
    const auto buffers = model.named_buffers();
    call_.compare("the number of buffers", std::to_string(buffers.size()));
    for (const auto& each : buffers) add("buffer '" + each.key() + "'", each.value());
  }

  void add_optimizer(const torch::optim::Optimizer& optimizer) {
    const StateDict all = state_of_optimizer(optimizer);
    std::vector<std::string> parameters;
    for (const auto& group : optimizer.param_groups())
      for (const at::Tensor& each : group.params())
        parameters.push_back(name_in_optimizer(each, parameters.size()));
    const auto groups = all.at("param_groups").toList();
    call_.compare("the number of the optimizer's param groups", std::to_string(groups.size()));
    for (std::size_t group = 0; group < groups.size(); ++group)
      for (const auto& option : groups.get(group).toGenericDict())
        call_.compare("option '" + option.key().toStringRef() +
                          "' of the optimizer's param group " + std::to_string(group),
                      c10::str(option.value()));
    const StateDict state = all.at("state").toGenericDict();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const auto of_one = state.find(static_cast<std::int64_t>(i));
      call_.compare("whether the optimizer has state of " + parameters[i],
                    of_one != state.end() ? "it has" : "none");
      if (of_one == state.end()) continue;
      const StateDict values = of_one->value().toGenericDict();
      for (const auto& value : values) {
        const auto name =
            "'" + value.key().toStringRef() + "' in the optimizer's state of " + parameters[i];
        if (value.value().isTensor()) {
          add(name, value.value().toTensor());
        } else {
          call_.compare(name, c10::str(value.value()));
        }
      }
    }
  }

  // A function that draws the order may throw on this rank alone.
  void add_sampler(const DistributedSampler& sampler) {
    for (const auto& each : state_of_sampler(sampler, std::nullopt)) {
      const auto& name = each.key().toStringRef();
      if (name != "rank" && name != "position" && name != "order_epoch")
        call_.compare("the sampler's " + name, std::to_string(each.value().toInt()));
    }
    call_.refuse_if_it_throws("the sampler's order cannot be drawn: ", [&] {
      const at::Tensor order = sampler.shared_order();
      call_.compare("whether the sampler has an order", order.defined() ? "it has" : "none");
      if (order.defined()) tensors_.push_back({"the sampler's order", order});
    });
  }

  std::string name_in_optimizer(const at::Tensor& parameter, std::size_t place) const {
    const auto known = names_.find(parameter.unsafeGetTensorImpl());
    return known != names_.end() ? known->second
                                 : "parameter " + std::to_string(place) + " of the optimizer";
  }

  void add(const std::string& name, const at::Tensor& tensor) {
    if (!tensor.defined() || tensor.layout() != at::kStrided || tensor.is_quantized())
      return call_.refuse(name + " is undefined or not dense");
    call_.compare("the shape and dtype of " + name,
                  c10::str(tensor.sizes(), " ", c10::toString(tensor.scalar_type())));
    tensors_.push_back({name, tensor});
  }

  ProgramCall& call_;
  std::map<const at::TensorImpl*, std::string> names_;
  std::vector<NamedTensor> tensors_;
};

}  // namespace

void check_replicas_equal(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                          const ReplicaParts& parts) {
  ProgramCall call(group, "check_replicas_equal", {.name = {}, .timeout = parts.timeout});
  const Parts compared(call, parts);
  call.agree();
  require_equal_values(call.communicator(), compared.tensors(), "digests of check_replicas_equal");
}

}  // namespace lockstep
