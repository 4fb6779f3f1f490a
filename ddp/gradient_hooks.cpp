#include "ddp/gradient_hooks.h"

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/torch.h>

namespace lockstep {

class GradientHooks::Hook : public torch::autograd::FunctionPostHook {
 public:
  Hook(Listener listener, std::size_t index) : listener_(std::move(listener)), index_(index) {}

  torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                            const torch::autograd::variable_list&) override {
    listener_(index_);
    return outputs;
  }

 private:
  const Listener listener_;
  const std::size_t index_;
};

GradientHooks::GradientHooks(const std::vector<at::Tensor>& parameters, const Listener& listener) {
  for (std::size_t index = 0; index < parameters.size(); ++index) {
    accumulators_.push_back(torch::autograd::impl::grad_accumulator(parameters[index]));
    keys_.push_back(accumulators_[index]->add_post_hook(std::make_unique<Hook>(listener, index)));
  }
}

GradientHooks::~GradientHooks() {
  for (std::size_t i = 0; i < keys_.size(); ++i) accumulators_[i]->del_post_hook(keys_[i]);
}

bool GradientHooks::is_attached(std::size_t index, const at::Tensor& parameter) const {
  return torch::autograd::impl::try_get_grad_accumulator(parameter) == accumulators_[index];
}

}  // namespace lockstep
