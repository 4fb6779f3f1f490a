#include "ddp/batch_norm/function.h"

#include "ddp/errors.h"

#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>
#include <torch/torch.h>

#include <algorithm>
#include <utility>

namespace lockstep {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr std::int64_t kChannelAxis = 1;

// All axes but the channels'.
std::vector<std::int64_t> summed_axes(const at::Tensor& input) {
  std::vector<std::int64_t> axes;
  for (std::int64_t axis = 0; axis < input.dim(); ++axis) {
    if (axis != kChannelAxis) axes.push_back(axis);
  }
  return axes;
}

at::Tensor sum_by_channel(const at::Tensor& values) {
  return at::sum(values, summed_axes(values), /*keepdim=*/false, at::kDouble);
}

// One value a channel, so shaped that it meets `input` channel by channel.
at::Tensor beside(const at::Tensor& by_channel, const at::Tensor& input) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(input.dim()), 1);
  shape[kChannelAxis] = by_channel.size(0);
  return by_channel.view(shape);
}

// Double, whatever the dtype of the input: a tensor of its own.
at::Tensor distances(const at::Tensor& input, const at::Tensor& averages) {
  return at::sub(input, beside(averages, input));
}

at::Tensor doubles(const std::vector<double>& values) {
  return torch::tensor(values, at::kDouble);
}

std::vector<double> plain(const at::Tensor& values) {
  const auto* const data = values.const_data_ptr<double>();
  return {data, data + values.numel()};
}

// What a backward pass needs besides tensors.
struct Link : torch::CustomClassHolder {
  std::shared_ptr<Communicator> communicator;
  std::int64_t count = 0;
  bool input_needs_gradient = false;
};

// Sums over this rank's values, [2, channels]: of the gradient, and of the gradient times distance.
at::Tensor own_sums(const at::Tensor& gradient, const at::Tensor& distance) {
  return at::stack({sum_by_channel(gradient), sum_by_channel(at::mul(gradient, distance))});
}

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
    context->save_for_backward(
        {input, weight.value_or(at::Tensor()), averages, inverse_deviations});
    context->saved_data["bias_dtype"] =
        static_cast<std::int64_t>(bias && bias->defined() ? bias->scalar_type() : at::kDouble);
    context->saved_data["link"] = c10::IValue::make_capsule(link);
    at::Tensor output = distances(input, averages);
    output.mul_(beside(scale(weight.value_or(at::Tensor()), inverse_deviations), input));
    if (bias && bias->defined()) output.add_(beside(bias->to(at::kDouble), input));
    return output.to(input.scalar_type());
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    if (at::GradMode::is_enabled()) {
      throw UsageError("SyncBatchNorm has no second derivative: backward with create_graph");
    }
    const auto link =
        c10::static_intrusive_pointer_cast<Link>(context->saved_data["link"].toCapsule());
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &input = saved[0], weight = saved[1], averages = saved[2], inverse = saved[3];
    const at::Tensor& gradient = gradients[0];
    const at::Tensor distance = distances(input, averages);
    const at::Tensor own = own_sums(gradient, distance);
    // Whatever this rank needs: its peers wait for it.
    const at::Tensor sums = link->communicator ? summed_over_ranks(own, *link->communicator) : own;

    variable_list out(6);
    if (link->input_needs_gradient) {
      const at::Tensor averaged = sums.div(static_cast<double>(link->count));
      const at::Tensor slope = averaged[1].mul(inverse).mul(inverse);
      out[0] = at::sub(gradient, beside(averaged[0], input))
                   .sub_(distance * beside(slope, input))
                   .mul_(beside(scale(weight, inverse), input))
                   .to(input.scalar_type());
    }
    // Without weight and bias these two edges are those of the averages, which need nothing.
    if (context->needs_input_grad(1)) out[1] = own[1].mul(inverse).to(weight.scalar_type());
    const auto bias_dtype = context->saved_data["bias_dtype"].toInt();
    if (context->needs_input_grad(2)) out[2] = own[0].to(static_cast<at::ScalarType>(bias_dtype));
    return out;
  }

 private:
  static at::Tensor scale(const at::Tensor& weight, const at::Tensor& inverse_deviations) {
    return weight.defined() ? inverse_deviations.mul(weight.to(at::kDouble)) : inverse_deviations;
  }
};

}  // namespace

BatchStatistics statistics_of(const at::Tensor& input) {
  const torch::NoGradGuard no_grad;
  BatchStatistics out{.count = input.numel() / input.size(kChannelAxis)};
  at::Tensor averages = sum_by_channel(input);
  if (out.count > 0) averages.div_(static_cast<double>(out.count));
  out.averages = plain(averages);
  out.squared_distances = plain(sum_by_channel(distances(input, averages).square_()));
  return out;
}

at::Tensor normalised(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias,
                      WholeBatch batch) {
  auto link = c10::make_intrusive<Link>();
  link->communicator = std::move(batch.communicator);
  link->count = batch.statistics.count;
  link->input_needs_gradient = input.requires_grad();
  // A batch without values has no variance; one of zero keeps the sums over nothing zero.
  const std::int64_t divisor = std::max(batch.statistics.count, std::int64_t{1});
  const at::Tensor variance = doubles(variances(batch.statistics, divisor));
  return Normalise::apply(input, std::optional<at::Tensor>(weight), std::optional<at::Tensor>(bias),
                          doubles(batch.statistics.averages), variance.add(batch.eps).rsqrt(),
                          link);
}

}  // namespace lockstep
