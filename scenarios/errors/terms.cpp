#include "scenarios/errors/terms.h"

#include "scenarios/cases/tensors.h"

#include <torch/torch.h>

namespace lockstep::scenarios::errors {

namespace {

// Calls `on_backward`, then passes the gradient on, or no gradient.
class Passage : public torch::autograd::Function<Passage> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input,
                            const std::function<void()>* on_backward, bool cuts) {
    context->saved_data["on_backward"] = reinterpret_cast<int64_t>(on_backward);
    context->saved_data["cuts"] = cuts;
    return input.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const auto* const on_backward =
        reinterpret_cast<const std::function<void()>*>(context->saved_data["on_backward"].toInt());
    if (*on_backward) (*on_backward)();
    const bool cuts = context->saved_data["cuts"].toBool();
    return {cuts ? at::Tensor() : gradients.front(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

Terms::Terms(const Erring& c, int rank)
    : parts(parameter_count(c)), row_(rank), order_(order_of(c, rank)) {
  for (size_t i = 0; i < parts.size(); ++i)
    parameters_.push_back(register_parameter(
        name_of(i), torch::ones({size_of(c, i), 1}, torch::dtype(scalar_type(c.dtype)))));
  if (c.embedding)
    embedding_ = register_module(
        "embedding",
        torch::nn::Embedding(torch::nn::EmbeddingOptions(c.world.size, 1).sparse(true)));
  if (c.buffer) count_ = register_buffer("count", torch::zeros({1}, at::kLong));
}

void Terms::register_late() {
  if (late_.defined()) return;
  late_ = register_parameter("late", torch::zeros_like(parameters_.front().detach()), false);
}

void Terms::register_early() {
  register_parameter("early", torch::zeros_like(parameters_.front().detach()), false);
}

void Terms::register_late_part(bool of_buffer) {
  const auto part = register_module("late_part", std::make_shared<torch::nn::Module>());
  if (of_buffer)
    part->register_buffer("late", torch::zeros_like(parameters_.front().detach()));
  else
    part->register_parameter("late", torch::zeros_like(parameters_.front().detach()));
}

at::Tensor Terms::term(size_t index, const at::Tensor& coefficient) {
  auto& part = parts[index];
  if (part.in_forward) part.in_forward();
  const auto& parameter = parameters_[index];
  if (!part.is_used) return torch::zeros_like(parameter, torch::requires_grad(false));
  const auto rows = torch::arange(parameter.size(0), parameter.device());
  const auto value =
      part.is_sparse ? torch::embedding(parameter, rows, -1, false, /*sparse=*/true) : parameter;
  const auto passed = part.in_backward || part.is_cut
                          ? Passage::apply(value, &part.in_backward, part.is_cut)
                          : value;
  return passed * coefficient.to(parameter.scalar_type());
}

std::vector<at::Tensor> Terms::outputs(const at::Tensor& coefficients) {
  std::vector<at::Tensor> out(parts.size());
  if (count_.defined()) count_.add_(1);
  auto rest = coefficients.sum() * 0;
  if (embedding_) {
    const auto rows = torch::full({1}, row_, at::kLong).to(embedding_->weight.device());
    rest = rest + embedding_->forward(rows).sum().to(rest.device(), at::kDouble);
  }
  for (const auto index : order_)
    out[index] = term(index, coefficients[static_cast<int64_t>(index)].detach());
  out.push_back(rest);
  return out;
}

at::Tensor Terms::forward(const at::Tensor& coefficients) {
  auto sum = torch::zeros({}, at::kDouble);
  for (const auto& each : outputs(coefficients)) sum = sum + each.sum();
  return sum;
}

}  // namespace lockstep::scenarios::errors
