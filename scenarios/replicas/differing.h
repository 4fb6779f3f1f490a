// The shape Differing: a model and options that all ranks have, and what some ranks have instead.
#pragma once

#include "harness/base/dtype.h"
#include "harness/cases/scenario.h"
#include "harness/worlds/options.h"
#include "scenarios/replicas/option_changes.h"

namespace lockstep::scenarios::replicas {

enum class TensorKind { parameter, buffer, embedding };

// A tensor of the model. By place the names are "t1", "t10", "t11", ...; an embedding's is
// "t11.weight".
struct TensorSpec {
  TensorKind kind = TensorKind::parameter;
  std::vector<int> shape;  // of an embedding: its first two sizes or 1, and one row more
  Dtype dtype = Dtype::float32;
  bool transposed = false;  // its strides are those of the shape read backwards
  bool frozen = false;      // whole numbers always are
  bool tied = false;        // it is the tensor before it of its kind, if there is one
  bool sparse = false;      // an embedding's gradient
  bool ignored = false;     // by parameters_and_buffers_to_ignore
  bool delayed = false;     // by delay_all_reduce_named_params, until the last parameter's gradient
  auto operator<=>(const TensorSpec&) const = default;
  static constexpr auto fields() {
    return std::tuple{
        field("kind", &TensorSpec::kind),
        field("shape", &TensorSpec::shape, at_most(3, between(1, 4))),
        field(
            "dtype", &TensorSpec::dtype,
            one_of<Dtype::float32, Dtype::float64, Dtype::float16, Dtype::bfloat16, Dtype::int64>),
        field("transposed", &TensorSpec::transposed),
        field("frozen", &TensorSpec::frozen),
        field("tied", &TensorSpec::tied),
        field("sparse", &TensorSpec::sparse),
        field("ignored", &TensorSpec::ignored),
        field("delayed", &TensorSpec::delayed)};
  }
};

// The words of a Difference that are about a tensor.
inline constexpr const char *kIgnored = "ignored", *kDelayed = "delayed";
inline constexpr std::array kTensorDifferences = std::to_array<std::string_view>(
    {"missing", "further", "renamed", "swapped", "shape", "dimensions", "dtype", "strides",
     "frozen", "tied", "kind", "device", "expanded", kIgnored, kDelayed, "sparse"});

inline constexpr auto kDifferences = [] {
  std::array<std::string_view, kTensorDifferences.size() + kOptionChanges.size()> words{};
  auto* next = std::copy(kTensorDifferences.begin(), kTensorDifferences.end(), words.begin());
  for (const auto& each : kOptionChanges) *next++ = each.word;
  return words;
}();

// The difference of one rank. Words of tensors are about one tensor, the model's last parameter
// included; the others are about options.
struct Difference {
  std::string what = "missing";
  int rank = 1;             // modulo the world size
  int tensor = 0;           // modulo their number
  bool everywhere = false;  // all ranks have it, of options
  auto operator<=>(const Difference&) const = default;
  static constexpr auto fields() {
    return std::tuple{field("what", &Difference::what, {.choices = kDifferences}),
                      field("rank", &Difference::rank, between(0, 1023)),
                      field("tensor", &Difference::tensor, between(0, 63)),
                      field("everywhere", &Difference::everywhere)};
  }
};

struct Differing {
  WorldSpec world;
  std::vector<Difference> differences;
  std::vector<TensorSpec> tensors;  // before the last parameter, "last"
  WrapOptions options;
  auto operator<=>(const Differing&) const = default;
  static constexpr auto fields() {
    return std::tuple{field("world", &Differing::world),
                      field("differences", &Differing::differences),
                      field("tensors", &Differing::tensors, at_most(8, {})),
                      field("options", &Differing::options)};
  }
};

// The memory of a tensor's elements: each its own; none, on the meta device; one for all.
enum class Memory { own, none, expanded };

// A tensor as one rank builds it.
struct GivenTensor {
  std::string name;
  TensorSpec form;     // where it is another one's tensor, that one's
  int place = 0;       // in the case; that of a further tensor is its neighbour's
  size_t same_as = 0;  // the first tensor of this rank's list that it is; itself, mostly
  Memory memory = Memory::own;
};

// The arguments that one rank wraps.
struct Given {
  std::vector<GivenTensor> tensors;  // in the order in which they are registered
  WrapOptions options;
};

// The case without its differences, and `rank`'s part with them.
Given given_to_all(const Differing& c);
Given given_to(const Differing& c, int rank);

// As named_parameters() and named_buffers() list them: indices into `given.tensors`.
std::vector<size_t> parameters_of(const Given& given);
std::vector<size_t> buffers_of(const Given& given);

bool is_ignored(const Given& given, size_t tensor);
bool requires_gradient(const GivenTensor& tensor);
// A shared parameter is left out if all its names are ignored.
bool is_trained(const Given& given, size_t tensor);

std::vector<int64_t> shape_of(const GivenTensor& tensor);
std::vector<int64_t> strides_of(const GivenTensor& tensor);
Dtype dtype_of(const GivenTensor& tensor);

}  // namespace lockstep::scenarios::replicas
