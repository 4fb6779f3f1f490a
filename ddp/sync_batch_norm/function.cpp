#include "ddp/sync_batch_norm/function.h"

#include "ddp/errors.h"

#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>
#include <torch/torch.h>

#include <optional>
#include <utility>

namespace lockstep {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The state of a backward pass besides tensors.
struct Link : torch::CustomClassHolder {
  std::shared_ptr<Communicator> communicator;
  std::int64_t count = 0;
  bool input_needs_gradient = false;
};

at::Tensor summed_over_ranks(const at::Tensor& own, Communicator& communicator) {
  at::Tensor sums = own.clone();
  Operation operation =
      communicator.start_sum(sums, "all-reduce in the backward pass of SyncBatchNorm");
  communicator.wait(operation);
  return sums;
}

class Normalise : public torch::autograd::Function<Normalise> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input,
                            const std::optional<at::Tensor>& weight,
                            const std::optional<at::Tensor>& bias, const at::Tensor& averages,
                            const at::Tensor& inverse_deviations,
                            const c10::intrusive_ptr<Link>& link) {
    const Normaliser by{.averages = averages,
                        .inverse_deviations = inverse_deviations,
                        .weight = weight.value_or(at::Tensor()),
                        .bias = bias.value_or(at::Tensor())};
    context->save_for_backward({input, by.weight, averages, inverse_deviations});
    context->saved_data["bias_dtype"] =
        static_cast<std::int64_t>(by.bias.defined() ? by.bias.scalar_type() : at::kDouble);
    context->saved_data["link"] = c10::IValue::make_capsule(link);
    return normalise(input, by);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    if (at::GradMode::is_enabled()) {
      throw UsageError("SyncBatchNorm has no second derivative: backward with create_graph");
    }
    const auto link =
        c10::static_intrusive_pointer_cast<Link>(context->saved_data["link"].toCapsule());
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& input = saved[0];
    const Normaliser by{
        .averages = saved[2], .inverse_deviations = saved[3], .weight = saved[1], .bias = {}};
    const at::Tensor gradient = laid_out_like(gradients[0], input);
    const at::Tensor own = gradient_sums(gradient, input, by);
    // Also if this rank needs no gradient: its peers wait for it.
    const at::Tensor sums = link->communicator ? summed_over_ranks(own, *link->communicator) : own;

    variable_list out(6);
    if (link->input_needs_gradient) {
      out[0] = input_gradient(gradient, input, by, sums, link->count);
    }
    // Without weight and bias these two edges are those of the averages, which need no gradient.
    if (context->needs_input_grad(1)) {
      out[1] = own[1].mul(by.inverse_deviations).to(by.weight.scalar_type());
    }
    const auto bias_dtype = context->saved_data["bias_dtype"].toInt();
    if (context->needs_input_grad(2)) out[2] = own[0].to(static_cast<at::ScalarType>(bias_dtype));
    return out;
  }
};

}  // namespace

at::Tensor normalised(const at::Tensor& input, WholeBatch batch) {
  auto link = c10::make_intrusive<Link>();
  link->communicator = std::move(batch.communicator);
  link->count = batch.count;
  link->input_needs_gradient = input.requires_grad();
  const Normaliser& by = batch.by;
  return Normalise::apply(input, std::optional<at::Tensor>(by.weight),
                          std::optional<at::Tensor>(by.bias), by.averages, by.inverse_deviations,
                          link);
}

}  // namespace lockstep
