#include "ddp/consistency/equal_values.h"

#include "ddp/base/disagreement.h"
#include "ddp/consistency/agreement.h"

#include <torch/torch.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <optional>
#include <sstream>

namespace lockstep {

namespace {

// The values in order, on the CPU.
at::Tensor in_order(const at::Tensor& tensor) {
  const at::NoGradGuard no_grad;
  return tensor.detach().resolve_conj().resolve_neg().to(at::kCPU).contiguous();
}

std::uint64_t mixed(std::uint64_t hash, std::uint64_t word) {
  hash = (hash ^ word) * 0x9e3779b97f4a7c15U;
  return std::rotl(hash, 29) * 0xbf58476d1ce4e5b9U;
}

// -1: none.
std::int64_t first_difference(const at::Tensor& one, const at::Tensor& other) {
  const auto size = static_cast<std::size_t>(one.element_size());
  const auto* const ours = static_cast<const char*>(one.const_data_ptr());
  const auto* const theirs = static_cast<const char*>(other.const_data_ptr());
  for (std::int64_t i = 0; i < one.numel(); ++i) {
    const auto at = static_cast<std::size_t>(i) * size;
    if (std::memcmp(ours + at, theirs + at, size) != 0) return i;
  }
  return -1;
}

std::string number_text(double value, const at::Tensor& element) {
  if (!std::isnan(value)) return exact_text(value);
  std::ostringstream text;
  text << "NaN (bits ";
  const auto* const bytes = static_cast<const unsigned char*>(element.const_data_ptr());
  for (auto at = element.nbytes(); at-- > 0;) text << std::hex << bytes[at] / 16 << bytes[at] % 16;
  text << ")";
  return text.str();
}

std::string value_text(const at::Tensor& element) {
  const auto dtype = element.scalar_type();
  if (dtype == at::kBool) return element.item<bool>() ? "true" : "false";
  if (at::isIntegralType(dtype, /*includeBool=*/false))
    return std::to_string(element.item<std::int64_t>());
  if (!element.is_complex()) return number_text(element.item<double>(), element);
  const at::Tensor parts = at::view_as_real(element);
  return "(" + number_text(parts[0].item<double>(), parts[0]) + ", " +
         number_text(parts[1].item<double>(), parts[1]) + ")";
}

// "element [1, 2] of "; nothing for the only element of a tensor without dimensions.
std::string place_text(const at::Tensor& tensor, std::int64_t element) {
  if (tensor.dim() == 0) return "";
  std::vector<std::int64_t> index(static_cast<std::size_t>(tensor.dim()));
  for (auto dimension = tensor.dim(); dimension-- > 0;) {
    index[static_cast<std::size_t>(dimension)] = element % tensor.size(dimension);
    element /= tensor.size(dimension);
  }
  return c10::str("element [", c10::Join(", ", index), "] of ");
}

std::int64_t smallest_not_negative(const std::vector<at::Tensor>& numbers) {
  std::int64_t least = -1;
  for (const at::Tensor& each : numbers) {
    const auto number = each.item<std::int64_t>();
    if (number >= 0 && (least < 0 || number < least)) least = number;
  }
  return least;
}

// The first tensor that has not the same digest on all ranks, if any.
std::optional<std::size_t> first_unequal(const std::vector<at::Tensor>& digests_of_ranks) {
  const at::Tensor& first = digests_of_ranks.front();
  for (std::int64_t i = 0; i < first.numel(); ++i)
    for (const at::Tensor& each : digests_of_ranks)
      if (each[i].item<std::int64_t>() != first[i].item<std::int64_t>())
        return static_cast<std::size_t>(i);
  return std::nullopt;
}

[[noreturn]] void name_difference(Communicator& communicator, const NamedTensor& named,
                                  const std::string& description) {
  const at::Tensor mine = in_order(named.tensor);
  at::Tensor of_rank_zero = mine.clone();
  const at::Tensor bytes = of_rank_zero.view({-1}).view(at::kByte);
  Operation sent = communicator.start_broadcast(bytes, description + ", the tensor of rank 0");
  communicator.wait(sent);
  const auto own = at::full({1}, first_difference(mine, of_rank_zero), at::kLong);
  const auto element =
      smallest_not_negative(communicator.gather(own, description + ", first elements"));
  RankDescription described;
  if (element >= 0)
    described.properties.push_back(
        {place_text(mine, element) + named.name, value_text(mine.view({-1})[element].clone())});
  disagree(communicator, encode(described));
}

}  // namespace

std::uint64_t digest_of(const at::Tensor& tensor) {
  const at::Tensor values = in_order(tensor);
  const std::size_t size = values.nbytes();
  const auto* const bytes = static_cast<const char*>(values.const_data_ptr());
  std::uint64_t hash = size;
  std::size_t at = 0;
  for (; at + sizeof(std::uint64_t) <= size; at += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes + at, sizeof(word));
    hash = mixed(hash, word);
  }
  std::uint64_t last = 0;
  if (at < size) std::memcpy(&last, bytes + at, size - at);
  return mixed(hash, last);
}

void require_equal_values(Communicator& communicator, const std::vector<NamedTensor>& tensors,
                          const std::string& description) {
  if (tensors.empty()) return;
  const auto count = static_cast<std::int64_t>(tensors.size());
  const at::Tensor digests = at::empty({count}, at::kLong);
  for (std::size_t i = 0; i < tensors.size(); ++i)
    digests.data_ptr<std::int64_t>()[i] = std::bit_cast<std::int64_t>(digest_of(tensors[i].tensor));
  const auto unequal = first_unequal(communicator.gather(digests, description));
  if (unequal) name_difference(communicator, tensors[*unequal], description);
}

void require_equal_replicas(Communicator& communicator, const ModuleState& state,
                            bool with_buffers) {
  std::vector<NamedTensor> tensors;
  for (const auto& each : state.trainable)
    tensors.push_back({"parameter '" + each.name + "'", each.tensor});
  for (const auto& each : state.frozen)
    tensors.push_back({"parameter '" + each.name + "'", each.tensor});
  for (const auto& each : state.buffers)
    if (with_buffers) tensors.push_back({"buffer '" + each.name + "'", each.tensor});
  require_equal_values(communicator, tensors, "digests of the replicas");
}

}  // namespace lockstep
