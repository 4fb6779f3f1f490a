#include "scenarios/replicas/changed.h"

#include "scenarios/cases/tensors.h"

#include <torch/torch.h>

#include <limits>
#include <numeric>

namespace lockstep::scenarios::replicas {

namespace {

bool is_whole(Dtype dtype) {
  return dtype == Dtype::int64 || dtype == Dtype::uint8 || dtype == Dtype::bool_;
}

int64_t elements_of(const NumberedTensor& part) {
  return std::accumulate(part.shape.begin(), part.shape.end(), int64_t{1},
                         [](int64_t product, int size) { return product * size; });
}

at::Tensor made(const NumberedTensor& part) {
  std::vector<int64_t> shape(part.shape.begin(), part.shape.end());
  auto values = torch::arange(1, elements_of(part) + 1).view(shape).to(scalar_type(part.dtype));
  if (part.transposed) {
    std::vector<int64_t> backwards(shape.size());
    std::iota(backwards.rbegin(), backwards.rend(), 0);
    values = values.permute(backwards).contiguous().permute(backwards);
  }
  return values;
}

}  // namespace

std::vector<NumberedTensor> parts_of(const Changed& c) {
  std::vector<NumberedTensor> all{{.shape = {1}}};
  all.insert(all.end(), c.parts.begin(), c.parts.end());
  return all;
}

size_t changed_part(const Changed& c) {
  return static_cast<size_t>(c.part) % parts_of(c).size();
}

int64_t changed_element(const Changed& c) {
  return c.element % elements_of(parts_of(c)[changed_part(c)]);
}

std::set<int> changing_ranks(const Changed& c) {
  std::set<int> all;
  for (const int rank : c.ranks) all.insert(rank % c.world.size);
  return all;
}

ChangeKind how_of(const Changed& c) {
  const auto dtype = parts_of(c)[changed_part(c)].dtype;
  if (dtype == Dtype::bool_ || (is_whole(dtype) && c.how == ChangeKind::nan))
    return ChangeKind::another;
  return dtype == Dtype::uint8 && c.how == ChangeKind::sign ? ChangeKind::another : c.how;
}

Numbered::Numbered(const Changed& c) {
  for (const auto& part : parts_of(c)) {
    const auto name = "t" + std::to_string(tensors_.size());
    const bool learns = !is_whole(part.dtype);
    tensors_.push_back(part.kind == NumberedKind::buffer
                           ? register_buffer(name, made(part))
                           : register_parameter(name, made(part), learns));
  }
}

at::Tensor Numbered::forward(const at::Tensor& input) {
  auto sum = input.sum();
  for (const auto& each : tensors_)
    if (each.requires_grad()) sum = sum + at::real(each.to(at::kComplexDouble)).sum();
  return sum;
}

void Numbered::change(const Changed& c) {
  const at::NoGradGuard no_grad;
  auto element = tensors_[changed_part(c)].detach();
  for (auto left = changed_element(c), d = element.dim(); d-- > 0;) {
    const auto size = element.size(-1);
    element = element.select(-1, left % size);
    left /= size;
  }
  const auto how = how_of(c);
  if (how == ChangeKind::sign) element.neg_();
  if (how == ChangeKind::nan) element.fill_(std::numeric_limits<double>::quiet_NaN());
  if (how == ChangeKind::another)
    element.scalar_type() == at::kBool ? element.logical_not_() : element.add_(64);
  if (how == ChangeKind::last_bit) {
    const auto changed = element.to(at::kCPU, /*non_blocking=*/false, /*copy=*/true);
    static_cast<char*>(changed.mutable_data_ptr())[0] ^= 1;
    element.copy_(changed);
  }
}

}  // namespace lockstep::scenarios::replicas
