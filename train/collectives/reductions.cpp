#include "train/collectives/reductions.h"

#include <torch/torch.h>

namespace lockstep {

namespace {

bool is_bitwise(const c10d::ReduceOp& operation) {
  return operation == c10d::ReduceOp::BAND || operation == c10d::ReduceOp::BOR ||
         operation == c10d::ReduceOp::BXOR;
}

bool is_order(const c10d::ReduceOp& operation) {
  return operation == c10d::ReduceOp::MIN || operation == c10d::ReduceOp::MAX;
}

// The dtypes that Gloo reduces, and those that travel as one of them.
bool has_reductions(at::ScalarType dtype) {
  for (const auto each :
       {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kByte, at::kChar, at::kShort,
        at::kInt, at::kLong, at::kBool, at::kComplexFloat, at::kComplexDouble})
    if (dtype == each) return true;
  return false;
}

}  // namespace

std::string name_of(const c10d::ReduceOp& operation) {
  switch (static_cast<c10d::ReduceOp::RedOpType>(operation)) {
    case c10d::ReduceOp::SUM:
      return "SUM";
    case c10d::ReduceOp::AVG:
      return "AVG";
    case c10d::ReduceOp::PRODUCT:
      return "PRODUCT";
    case c10d::ReduceOp::MIN:
      return "MIN";
    case c10d::ReduceOp::MAX:
      return "MAX";
    case c10d::ReduceOp::BAND:
      return "BAND";
    case c10d::ReduceOp::BOR:
      return "BOR";
    case c10d::ReduceOp::BXOR:
      return "BXOR";
    case c10d::ReduceOp::PREMUL_SUM:
      return "PREMUL_SUM";
    case c10d::ReduceOp::UNUSED:
      break;
  }
  return "no reduction";
}

std::optional<std::string> problem_with(const c10d::ReduceOp& operation, at::ScalarType dtype,
                                        const std::string& backend) {
  const std::string of = " of " + std::string(c10::toString(dtype)) + " tensors";
  const auto refused = [&](const std::string& cure) {
    return name_of(operation) + of + " is not offered" + (cure.empty() ? "" : ": ") + cure;
  };
  const bool is_number = at::isFloatingType(dtype) || at::isComplexType(dtype);
  const bool is_known = is_bitwise(operation) || is_order(operation) ||
                        operation == c10d::ReduceOp::SUM || operation == c10d::ReduceOp::AVG ||
                        operation == c10d::ReduceOp::PRODUCT;
  if (!is_known || !has_reductions(dtype)) return refused("");
  if (is_bitwise(operation) && is_number) return refused("it is for integers and bool");
  if (is_bitwise(operation) && backend == "nccl")
    return refused("the backend " + backend + " has none");
  if (at::isComplexType(dtype) && operation != c10d::ReduceOp::SUM &&
      operation != c10d::ReduceOp::AVG)
    return refused("complex tensors have SUM and AVG");
  if (dtype == at::kBool && !is_bitwise(operation) && !is_order(operation))
    return refused("MAX means \"any\", and MIN \"all\"");
  if (operation == c10d::ReduceOp::AVG && !is_number)
    return refused("convert them to a floating dtype");
  return std::nullopt;
}

c10d::ReduceOp sent_operation(const c10d::ReduceOp& operation) {
  return operation == c10d::ReduceOp::AVG ? c10d::ReduceOp(c10d::ReduceOp::SUM) : operation;
}

at::Tensor packed_for_reduction(const at::Tensor& tensor) {
  const at::Tensor plain = tensor.detach().resolve_conj().resolve_neg();
  const at::Tensor copy = plain.clone(at::MemoryFormat::Contiguous).view({-1});
  if (copy.is_complex()) return at::view_as_real(copy).view({-1});
  if (copy.scalar_type() == at::kBool) return copy.view(at::kByte);
  if (copy.scalar_type() == at::kShort) return copy.to(at::kInt);
  return copy;
}

void unpack_reduced(const at::Tensor& packed, const at::Tensor& tensor,
                    const c10d::ReduceOp& operation, int world_size) {
  const at::NoGradGuard no_grad;
  at::Tensor value = packed;
  if (operation == c10d::ReduceOp::AVG) value.div_(world_size);
  if (tensor.is_complex()) value = at::view_as_complex(value.view({-1, 2}));
  tensor.detach().copy_(value.view(tensor.sizes()));
}

}  // namespace lockstep
