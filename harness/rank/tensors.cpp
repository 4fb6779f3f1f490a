#include "harness/rank/tensors.h"

namespace lockstep {

namespace {

constexpr std::pair<Dtype, at::ScalarType> kTypes[]{
    {Dtype::float32, at::kFloat},
    {Dtype::float64, at::kDouble},
    {Dtype::float16, at::kHalf},
    {Dtype::bfloat16, at::kBFloat16},
    {Dtype::complex64, at::kComplexFloat},
    {Dtype::complex128, at::kComplexDouble},
    {Dtype::int64, at::kLong},
    {Dtype::int32, at::kInt},
    {Dtype::int16, at::kShort},
    {Dtype::int8, at::kChar},
    {Dtype::uint8, at::kByte},
    {Dtype::uint16, at::kUInt16},
    {Dtype::uint32, at::kUInt32},
    {Dtype::uint64, at::kUInt64},
    {Dtype::bool_, at::kBool},
};

}  // namespace

std::string dtype_word(at::ScalarType type) {
  for (const auto& [dtype, known] : kTypes)
    if (known == type) return word_of(dtype);
  throw std::invalid_argument(std::string("no plain elements in a tensor of ") + toString(type));
}

at::ScalarType scalar_type(Dtype dtype) {
  for (const auto& [known, type] : kTypes)
    if (known == dtype) return type;
  throw std::invalid_argument("no plain elements in a tensor of " + word_of(dtype));
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
