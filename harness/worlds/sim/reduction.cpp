#include "harness/worlds/sim/reduction.h"

#include "harness/base/values.h"

#include <torch/torch.h>

#include <algorithm>
#include <numeric>

namespace lockstep::sim {

void require_sendable(const at::Tensor& tensor) {
  TORCH_CHECK(tensor.defined(), "an undefined tensor cannot be sent");
  TORCH_CHECK(tensor.is_non_overlapping_and_dense(),
              "a tensor with gaps or overlaps cannot be sent: sizes ", tensor.sizes(), ", strides ",
              tensor.strides());
}

at::Tensor flat(const at::Tensor& tensor) {
  require_sendable(tensor);
  return tensor.variable_data().as_strided({tensor.numel()}, {1});
}

namespace {

using Tensors = std::vector<at::Tensor>;
using Reduction = c10d::ReduceOp;

at::Tensor combined(const at::Tensor& a, const at::Tensor& b, Reduction::RedOpType reduction) {
  switch (reduction) {
    case Reduction::SUM:
    case Reduction::AVG:
      return a + b;
    case Reduction::PRODUCT:
      return a * b;
    case Reduction::MIN:
      return at::minimum(a, b);
    case Reduction::MAX:
      return at::maximum(a, b);
    case Reduction::BAND:
      return at::bitwise_and(a, b);
    case Reduction::BOR:
      return at::bitwise_or(a, b);
    case Reduction::BXOR:
      return at::bitwise_xor(a, b);
    default:
      TORCH_CHECK(false, "reductions of kind ", static_cast<int>(reduction),
                  " are not carried between simulated ranks");
  }
}

at::Tensor in_turn(const Tensors& parts, const std::vector<size_t>& order,
                   Reduction::RedOpType reduction) {
  auto sum = parts[order.front()];
  for (size_t i = 1; i < order.size(); ++i) sum = combined(sum, parts[order[i]], reduction);
  return sum;
}

at::Tensor in_pairs(Tensors parts, Reduction::RedOpType reduction) {
  while (parts.size() > 1) {
    Tensors halved;
    for (size_t i = 0; i + 1 < parts.size(); i += 2)
      halved.push_back(combined(parts[i], parts[i + 1], reduction));
    if (parts.size() % 2 == 1) halved.push_back(parts.back());
    parts = std::move(halved);
  }
  return parts.front();
}

// Note [Gloo's ring]
// Gloo cuts a buffer into 2 W segments of equal size (more where they would exceed a mebibyte, but
// always a multiple of W), the last ones shorter or empty; consecutive segments, as many as each
// rank gets, are a chunk. Chunk c starts at rank c - 1 and travels downwards, each rank adding its
// own part to what it received, until it reaches rank c.
at::Tensor in_a_ring(const Tensors& parts, Reduction::RedOpType reduction) {
  constexpr int64_t kSegmentBytesMost = int64_t{1} << 20;
  const auto world = static_cast<int64_t>(parts.size());
  const auto size = static_cast<int64_t>(parts.front().element_size());
  const int64_t bytes = parts.front().numel() * size;
  const auto divided_up = [](int64_t a, int64_t b) { return (a + b - 1) / b; };
  const int64_t longest = std::max<int64_t>(1, kSegmentBytesMost / size) * size;
  const int64_t segments =
      divided_up(std::max(divided_up(bytes, longest), 2 * world), world) * world;
  const int64_t segment = divided_up(divided_up(bytes, segments), size) * size;
  const int64_t chunk = segment * (segments / world) / size;  // in elements
  auto out = at::empty_like(parts.front());
  for (int64_t c = 0; c < world; ++c) {
    const int64_t begin = std::min(c * chunk, out.numel());
    const int64_t end = std::min(begin + chunk, out.numel());
    if (begin == end) continue;
    Tensors pieces;
    for (int64_t hop = 1; hop <= world; ++hop)
      pieces.push_back(parts[static_cast<size_t>((c - hop + world) % world)].slice(0, begin, end));
    std::vector<size_t> order(pieces.size());
    std::iota(order.begin(), order.end(), 0);
    out.slice(0, begin, end).copy_(in_turn(pieces, order, reduction));
  }
  return out;
}

std::vector<size_t> permutation(size_t size, uint64_t seed) {
  std::vector<std::pair<uint64_t, size_t>> drawn;
  for (size_t i = 0; i < size; ++i)
    drawn.emplace_back(bits_at({.seed = seed, .stream = Stream::schedule, .rank = 3, .index = i}),
                       i);
  std::sort(drawn.begin(), drawn.end());
  std::vector<size_t> order;
  for (const auto& [bits, i] : drawn) order.push_back(i);
  return order;
}

}  // namespace

at::Tensor reduced(const Tensors& of_members, Reduction::RedOpType reduction,
                   const ReductionOrder& order) {
  Tensors parts;
  for (const auto& tensor : of_members) parts.push_back(flat(tensor));
  const auto in_order = [&] {
    if (parts.size() == 1) return parts.front().clone();
    if (order.shape == ReductionShape::tree) return in_pairs(parts, reduction);
    if (order.shape == ReductionShape::ring) return in_a_ring(parts, reduction);
    std::vector<size_t> turn(parts.size());
    std::iota(turn.begin(), turn.end(), 0);
    if (order.shape == ReductionShape::permuted) turn = permutation(parts.size(), order.seed);
    return in_turn(parts, turn, reduction);
  };
  auto sum = in_order();
  if (reduction == Reduction::AVG) {
    TORCH_CHECK(at::isFloatingType(sum.scalar_type()) || at::isComplexType(sum.scalar_type()),
                "ReduceOp::AVG wants floating numbers, not ", sum.scalar_type());
    sum.div_(static_cast<double>(parts.size()));
  }
  return sum;
}

}  // namespace lockstep::sim
