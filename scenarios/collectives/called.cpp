#include "scenarios/collectives/called.h"

#include "harness/base/values.h"
#include "harness/cases/scenario.h"
#include "scenarios/cases/tensors.h"

#include <torch/torch.h>

#include <algorithm>
#include <cstdlib>

namespace lockstep::scenarios::collectives {

namespace {

using Numbers = std::vector<int64_t>;

// The numbers that `rank` gives in call number `number`, or its part for rank `part`.
Numbers numbers_of(const Called& c, size_t number, int rank, int part = 0) {
  const Call call = calls_of(c)[number];
  Numbers out;
  for (int64_t element = 0; element < call.rows * kColumns; ++element) {
    const Counter at{.seed = c.seed,
                     .stream = Stream::input,
                     .rank = static_cast<uint64_t>(rank),
                     .step = number,
                     .index = static_cast<uint64_t>(element * 64 + part)};
    const int64_t drawn = whole_at(at, 3);
    const bool is_factor = reduces(call) && call.reduction == ReductionKind::product;
    out.push_back(call.dtype == Dtype::bool_   ? drawn & 1
                  : call.dtype == Dtype::uint8 ? std::abs(drawn) % (is_factor ? 3 : 4)
                  : is_factor                  ? std::clamp<int64_t>(drawn, -1, 2)
                  : reduces(call) && call.reduction == ReductionKind::avg
                      ? drawn * static_cast<int64_t>(members_of(c, call).size())
                      : drawn);
  }
  return out;
}

// Complex numbers have a second part of another size; all of a call are multiplied by one number.
at::Tensor tensor_of(const Numbers& numbers, const Call& call) {
  const auto out =
      torch::tensor(numbers, at::kLong).view({call.rows, kColumns}).to(scalar_type(call.dtype));
  return call.dtype == Dtype::complex64 ? out * c10::complex<float>(1, -2) : out;
}

int64_t reduced(ReductionKind reduction, int64_t a, int64_t b) {
  if (reduction == ReductionKind::product) return a * b;
  if (reduction == ReductionKind::min) return std::min(a, b);
  if (reduction == ReductionKind::max) return std::max(a, b);
  if (reduction == ReductionKind::band) return a & b;
  if (reduction == ReductionKind::bor) return a | b;
  if (reduction == ReductionKind::bxor) return a ^ b;
  return a + b;
}

Numbers reduction_over_ranks(const Called& c, size_t number, ReductionKind reduction) {
  const auto members = members_of(c, calls_of(c)[number]);
  Numbers all = numbers_of(c, number, members.front());
  for (size_t i = 1; i < members.size(); ++i) {
    const auto next = numbers_of(c, number, members[i]);
    for (size_t n = 0; n < all.size(); ++n) all[n] = reduced(reduction, all[n], next[n]);
  }
  for (auto& each : all)
    if (reduction == ReductionKind::avg) each /= static_cast<int64_t>(members.size());
  return all;
}

using ByRank = std::vector<TensorValue>;

template <class Of>
ByRank by_rank(const Called& c, const Call& call, const Of& numbers) {
  ByRank out;
  for (int rank = 0; rank < c.world.size; ++rank)
    out.push_back(value_of(as_recorded(tensor_of(numbers(rank), call))));
  return out;
}

// The tensors that each rank holds after call number `number`, if its root were rank `root`.
ByRank tensors_after(const Called& c, size_t number, int root) {
  const Call call = calls_of(c)[number];
  return by_rank(c, call, [&](int rank) {
    if (!is_member(c, call, rank)) return numbers_of(c, number, rank);
    const bool receives = call.kind != CollectiveKind::reduce || rank == root;
    if (reduces(call) && receives) return reduction_over_ranks(c, number, call.reduction);
    if (call.kind == CollectiveKind::broadcast) return numbers_of(c, number, root);
    if (call.kind == CollectiveKind::scatter) {
      const auto members = members_of(c, call);
      const auto part = std::ranges::find(members, rank) - members.begin();
      return numbers_of(c, number, root, static_cast<int>(part));
    }
    return numbers_of(c, number, rank);
  });
}

}  // namespace

std::vector<Call> calls_of(const Called& c) {
  return c.calls.empty() ? std::vector<Call>{{}} : c.calls;
}

bool reduces(const Call& call) {
  return call.kind == CollectiveKind::all_reduce || call.kind == CollectiveKind::reduce;
}

bool gathers(const Call& call) {
  return call.kind == CollectiveKind::all_gather || call.kind == CollectiveKind::gather;
}

bool is_floating(const Call& call) {
  return call.dtype == Dtype::complex64 || traits_of(call.dtype).precision_bits > 0;
}

bool is_bitwise(const Call& call) {
  return reduces(call) &&
         (call.reduction == ReductionKind::band || call.reduction == ReductionKind::bor ||
          call.reduction == ReductionKind::bxor);
}

bool is_refused(const Call& call) {
  if (!reduces(call)) return false;
  if (is_bitwise(call) && is_floating(call)) return true;
  if (call.dtype == Dtype::bool_)
    return call.reduction == ReductionKind::sum || call.reduction == ReductionKind::product ||
           call.reduction == ReductionKind::avg;
  if (call.dtype == Dtype::complex64)
    return call.reduction != ReductionKind::sum && call.reduction != ReductionKind::avg;
  return !is_floating(call) && call.reduction == ReductionKind::avg;
}

bool moves_numbers(const Call& call) {
  return call.kind != CollectiveKind::barrier;
}

std::vector<int> members_of(const Called& c, const Call& call) {
  std::vector<int> all, out;
  for (int rank = 0; rank < c.world.size; ++rank) {
    all.push_back(rank);
    if (rank < 6 && (call.members >> rank) % 2 == 1) out.push_back(rank);
  }
  return out.empty() ? all : out;
}

bool has_own_group(const Called& c, const Call& call) {
  return call.members % (1 << std::min(c.world.size, 6)) != 0;
}

int root_of(const Called& c, const Call& call) {
  return call.root % static_cast<int>(members_of(c, call).size());
}

bool is_member(const Called& c, const Call& call, int rank) {
  return std::ranges::count(members_of(c, call), rank) > 0;
}

at::Tensor as_recorded(const at::Tensor& tensor) {
  const auto plain = tensor.resolve_conj().resolve_neg();
  return plain.is_complex() ? at::view_as_real(plain) : plain;
}

at::Tensor given(const Called& c, size_t number, int rank, int part) {
  return tensor_of(numbers_of(c, number, rank, part), calls_of(c)[number]);
}

std::string why_not_called(const Called& c) {
  const int64_t most_of_average = 3 * int64_t{c.world.size} * c.world.size;
  for (const Call& call : calls_of(c)) {
    if (is_refused(call)) return word_of(call.dtype) + " has no such reduction";
    const int bits = call.dtype == Dtype::complex64 ? 24 : traits_of(call.dtype).precision_bits;
    const int64_t exact = int64_t{1} << std::min(bits, 24);
    if (reduces(call) && call.reduction == ReductionKind::avg && most_of_average > exact)
      return "the sums over so many ranks round in " + word_of(call.dtype);
  }
  return "";
}

std::vector<TensorValue> expected_tensors(const Called& c, size_t number) {
  const Call call = calls_of(c)[number];
  return tensors_after(c, number, members_of(c, call)[static_cast<size_t>(root_of(c, call))]);
}

std::vector<TensorValue> expected_gathers(const Called& c, size_t number) {
  const Call call = calls_of(c)[number];
  const auto members = members_of(c, call);
  const int root = members[static_cast<size_t>(root_of(c, call))];
  std::vector<at::Tensor> all;
  for (const int rank : members) all.push_back(given(c, number, rank));
  const auto dtype = scalar_type(call.dtype);
  ByRank out;
  for (int rank = 0; rank < c.world.size; ++rank)
    out.push_back(value_of(
        as_recorded((call.kind == CollectiveKind::all_gather && is_member(c, call, rank)) ||
                            (call.kind == CollectiveKind::gather && rank == root)
                        ? at::stack(all)
                        : at::zeros({0}, dtype))));
  return out;
}

Explanations mistakes_of(const Called& c, size_t number) {
  const Call call = calls_of(c)[number];
  const int root = members_of(c, call)[static_cast<size_t>(root_of(c, call))];
  Explanations out{
      recorded_instead({"not_received", "what each rank gave: nothing arrived"},
                       by_rank(c, call, [&](int rank) { return numbers_of(c, number, rank); }))};
  if (reduces(call)) {
    const auto everywhere = [&](ReductionKind reduction) {
      return by_rank(c, call, [&](int) { return reduction_over_ranks(c, number, reduction); });
    };
    if (call.kind == CollectiveKind::reduce)
      out.push_back(recorded_instead(
          {"written_everywhere", "the reduction, which is the destination's alone"},
          everywhere(call.reduction)));
    for (const auto other :
         {ReductionKind::sum, ReductionKind::product, ReductionKind::min, ReductionKind::max,
          ReductionKind::band, ReductionKind::bor, ReductionKind::bxor})
      if (call.reduction != other && call.dtype != Dtype::bool_ && call.dtype != Dtype::complex64)
        out.push_back(
            recorded_instead({"another_reduction", "the " + word_of(other)}, everywhere(other)));
  } else if (!gathers(call)) {
    for (int other = 0; other < c.world.size; ++other)
      if (other != root)
        out.push_back(recorded_instead(
            {"another_source", "what rank " + std::to_string(other) + " would have sent"},
            tensors_after(c, number, other)));
  }
  return out;
}

}  // namespace lockstep::scenarios::collectives
