#include "train/averaging/average.h"

#include "train/collectives/call.h"
#include "train/collectives/reductions.h"

#include <c10/util/StringUtil.h>
#include <torch/torch.h>

#include <algorithm>

namespace lockstep {

namespace {

// Says of `call` what this rank has, or why it cannot take part.
void compare(ProgramCall& call, const std::vector<NamedTensor>& parameters, std::int64_t step) {
  call.compare("the step", std::to_string(step));
  call.compare("the number of parameters", std::to_string(parameters.size()));
  const at::Tensor* first = nullptr;
  for (const auto& [name, tensor] : parameters) {
    if (!tensor.defined()) return call.refuse(name + " is undefined");
    const bool has_gradient = tensor.grad().defined();
    call.compare(name, c10::str(c10::toString(tensor.scalar_type()), " ", tensor.sizes(), " on ",
                                c10::DeviceTypeName(tensor.device().type(), true),
                                has_gradient ? " with a gradient" : " without a gradient"));
    if (!has_gradient) continue;
    if (tensor.layout() != at::kStrided) return call.refuse(name + " is not dense");
    if (first == nullptr) first = &tensor;
    if (tensor.device() != first->device())
      return call.refuse(c10::str(name, " is on ", tensor.device(), ", expected ", first->device(),
                                  " as those before it"));
    const auto backend = call.communicator().backend_name_for(tensor.device().type());
    if (const auto problem = problem_with(c10d::ReduceOp::SUM, tensor.scalar_type(), backend))
      return call.refuse(*problem);
  }
}

std::vector<at::Tensor> with_gradients(const std::vector<NamedTensor>& parameters) {
  std::vector<at::Tensor> out;
  for (const NamedTensor& each : parameters)
    if (each.tensor.grad().defined()) out.push_back(each.tensor.detach());
  return out;
}

// Those of the first one's dtype, which are taken out of `tensors`.
std::vector<at::Tensor> take_those_of_one_dtype(std::vector<at::Tensor>& tensors) {
  const auto has_another = [dtype = tensors.front().scalar_type()](const at::Tensor& each) {
    return each.scalar_type() != dtype;
  };
  const auto rest = std::stable_partition(tensors.begin(), tensors.end(), has_another);
  std::vector<at::Tensor> out(rest, tensors.end());
  tensors.erase(rest, tensors.end());
  return out;
}

// Divides before it sums, as PyTorch does: a sum of many large parameters would overflow.
void average_those_of_one_dtype(ProgramCall& call, const std::vector<at::Tensor>& parameters) {
  std::vector<at::Tensor> rows;
  for (const at::Tensor& each : parameters)
    rows.push_back(each.resolve_conj().resolve_neg().reshape({-1}));
  const at::Tensor all = at::cat(rows);
  if (all.numel() == 0) return;
  all.div_(call.communicator().world_size());
  Operation sum =
      call.communicator().start_sum(all.is_complex() ? at::view_as_real(all) : all, call.name());
  call.communicator().wait(sum);
  std::int64_t offset = 0;
  for (const at::Tensor& each : parameters) {
    each.copy_(all.narrow(0, offset, each.numel()).view(each.sizes()));
    offset += each.numel();
  }
}

}  // namespace

void average(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
             const std::vector<NamedTensor>& parameters, std::int64_t step) {
  const at::NoGradGuard no_grad;
  ProgramCall call(group, "average_parameters", {});
  compare(call, parameters, step);
  call.agree();
  std::vector<at::Tensor> rest = with_gradients(parameters);
  while (!rest.empty()) average_those_of_one_dtype(call, take_those_of_one_dtype(rest));
}

}  // namespace lockstep
