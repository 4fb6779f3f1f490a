#include "harness/rank/tensors.h"

namespace lockstep {

std::string dtype_word(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return "float32";
    case at::kDouble:
      return "float64";
    case at::kHalf:
      return "float16";
    case at::kBFloat16:
      return "bfloat16";
    case at::kByte:
      return "uint8";
    case at::kChar:
      return "int8";
    case at::kShort:
      return "int16";
    case at::kInt:
      return "int32";
    case at::kLong:
      return "int64";
    case at::kUInt16:
      return "uint16";
    case at::kUInt32:
      return "uint32";
    case at::kUInt64:
      return "uint64";
    case at::kBool:
      return "bool";
    case at::kComplexFloat:
      return "complex64";
    case at::kComplexDouble:
      return "complex128";
    default:
      break;
  }
  throw std::invalid_argument(std::string("no plain elements in a tensor of ") + toString(type));
}

TensorValue value_of(const at::Tensor& value) {
  if (!value.defined()) throw std::invalid_argument("an undefined tensor has no value");
  const at::Tensor plain = value.detach().resolve_conj().resolve_neg().cpu().contiguous();
  TensorValue out{dtype_word(plain.scalar_type()), plain.sizes().vec(), {}};
  const auto* bytes = static_cast<const std::byte*>(plain.const_data_ptr());
  out.bytes.assign(bytes, bytes + plain.nbytes());
  return out;
}

int64_t element_count(const std::vector<at::Tensor>& tensors) {
  int64_t count = 0;
  for (const auto& tensor : tensors)
    if (tensor.defined()) count += tensor.numel();
  return count;
}

std::string dtype_word(const std::vector<at::Tensor>& tensors) {
  std::string word;
  for (const auto& tensor : tensors) {
    if (!tensor.defined()) continue;
    const std::string next = dtype_word(tensor.scalar_type());
    if (!word.empty() && word != next) return "mixed";
    word = next;
  }
  return word;
}

}  // namespace lockstep
