#include "scenarios/programs/functions.h"

#include <torch/torch.h>

namespace lockstep::scenarios::programs {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct PassedOn : torch::autograd::Function<PassedOn> {
  static at::Tensor forward(AutogradContext*, const at::Tensor& tensor) { return tensor.clone(); }
  static variable_list backward(AutogradContext*, const variable_list& gradients) {
    const auto& gradient = gradients.front();
    return {at::stack({gradient, at::zeros_like(gradient)}, -1).select(-1, 0)};
  }
};

struct Body : torch::CustomClassHolder {
  explicit Body(std::function<at::Tensor()> given) : run(std::move(given)) {}
  const std::function<at::Tensor()> run;
};

// `start` requires a gradient, so that the result does.
struct Recomputed : torch::autograd::Function<Recomputed> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& /*start*/,
                            const c10::intrusive_ptr<Body>& body) {
    context->saved_data["body"] = c10::IValue::make_capsule(body);
    return body->run();
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto body =
        c10::static_intrusive_pointer_cast<Body>(context->saved_data["body"].toCapsule());
    const torch::AutoGradMode with_gradients(true);
    const auto result = body->run();
    if (result.requires_grad()) torch::autograd::backward({result}, {gradients.front()});
    return {at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor passed_on(const at::Tensor& tensor) {
  return PassedOn::apply(tensor);
}

at::Tensor recomputed(const std::function<at::Tensor()>& body) {
  if (!torch::GradMode::is_enabled()) return body();
  return Recomputed::apply(torch::zeros({}, torch::requires_grad()),
                           c10::make_intrusive<Body>(body));
}

}  // namespace lockstep::scenarios::programs
