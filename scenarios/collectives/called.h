// The shape Called: collectives that a program calls, one after the other, and what is right.
#pragma once

#include "harness/base/case.h"
#include "harness/base/dtype.h"
#include "harness/verdict/diagnose.h"
#include "harness/worlds/options.h"

#include <ATen/core/Tensor.h>

namespace lockstep::scenarios::collectives {

// lazy: complex numbers are conjugated when they are read; real ones are the imaginary parts of
// such, with another sign when they are read; as contiguous, where the dtype has neither.
enum class Layout { contiguous, strided, transposed, lazy };

struct Call {
  CollectiveKind kind = CollectiveKind::all_reduce;
  ReductionKind reduction = ReductionKind::sum;  // of all_reduce and reduce
  int root = 0;                                  // modulo the number of ranks that take part
  // Bit r: rank r takes part, in a group that is made for the call; none of the world's: all ranks.
  int members = 0;
  bool descending = false;  // the program names them from the highest on
  int groups_before = 0;    // of the same ranks, which live beside that of the call
  int64_t rows = 1;         // of two columns
  Dtype dtype = Dtype::float32;
  Layout layout = Layout::contiguous;
  auto operator<=>(const Call&) const = default;
  static constexpr auto fields() {
    return std::tuple{
        field("name", &Call::kind),
        field("reduction", &Call::reduction),
        field("root", &Call::root, between(0, 63)),
        field("members", &Call::members, between(0, 63)),
        field("descending", &Call::descending),
        field("groups_before", &Call::groups_before, between(0, 4)),
        field("rows", &Call::rows, between(0, 100'000)),
        field("dtype", &Call::dtype,
              one_of<Dtype::float32, Dtype::float64, Dtype::float16, Dtype::bfloat16, Dtype::int64,
                     Dtype::int32, Dtype::int16, Dtype::uint8, Dtype::bool_, Dtype::complex64>,
              Cost::numbers),
        field("layout", &Call::layout)};
  }
};

struct Called {
  WorldSpec world;
  std::vector<Call> calls;  // empty: one all_reduce
  // This rank, modulo the world's size, makes one more call, of the last one's kind, only once its
  // peers have given up waiting for it, as the call's timeout says; -1: none.
  int late = -1;
  uint64_t seed = 0;
  auto operator<=>(const Called&) const = default;
  static constexpr auto fields() {
    return std::tuple{field("world", &Called::world), field("calls", &Called::calls),
                      field("late", &Called::late, between(-1, 63)),
                      field("seed", &Called::seed, {}, Cost::numbers)};
  }
};

constexpr int64_t kColumns = 2;

std::vector<Call> calls_of(const Called& c);
bool reduces(const Call& call);
bool gathers(const Call& call);
bool is_floating(const Call& call);
bool is_bitwise(const Call& call);     // a reduction of bits, of whole numbers and bools
bool moves_numbers(const Call& call);  // or only waits

// The ranks that take part, ascending, whether they have a group of their own, and which of them is
// the root.
std::vector<int> members_of(const Called& c, const Call& call);
bool has_own_group(const Called& c, const Call& call);
int root_of(const Called& c, const Call& call);  // its number in the group
bool is_member(const Called& c, const Call& call, int rank);

// True of a call that the contract of the collectives refuses; other scenarios look at refusals.
bool is_refused(const Call& call);

// The numbers that are recorded: the parts of complex ones, since reports read real ones.
at::Tensor as_recorded(const at::Tensor& tensor);

// The tensor that `rank` gives in call number `number`, or its part for rank `part`: [rows, 2],
// contiguous.
at::Tensor given(const Called& c, size_t number, int rank, int part = 0);

// A precondition: empty where every call is one that collectives take, and no sum of the case's
// numbers is too large for its dtype.
std::string why_not_called(const Called& c);

// By rank: what the tensor of call number `number` holds after it, and what a gather returns.
std::vector<TensorValue> expected_tensors(const Called& c, size_t number);
std::vector<TensorValue> expected_gathers(const Called& c, size_t number);

// The values that known mistakes would leave in the tensor.
Explanations mistakes_of(const Called& c, size_t number);

}  // namespace lockstep::scenarios::collectives
