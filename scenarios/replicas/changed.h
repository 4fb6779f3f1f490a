// The shape Changed: replicas that are equal, and what some ranks change in one of their tensors.
#pragma once

#include "harness/base/dtype.h"
#include "harness/cases/scenario.h"
#include "harness/worlds/subject.h"

#include <set>
#include <string>
#include <vector>

namespace lockstep::scenarios::replicas {

enum class NumberedKind { parameter, buffer };

struct NumberedTensor {
  NumberedKind kind = NumberedKind::parameter;
  Dtype dtype = Dtype::float32;
  std::vector<int> shape;
  bool transposed = false;  // its strides are those of the shape read backwards
  auto operator<=>(const NumberedTensor&) const = default;
  static constexpr auto fields() {
    return std::tuple{field("kind", &NumberedTensor::kind),
                      field("dtype", &NumberedTensor::dtype,
                            one_of<Dtype::float32, Dtype::float64, Dtype::float16, Dtype::bfloat16,
                                   Dtype::complex64, Dtype::int64, Dtype::uint8, Dtype::bool_>),
                      field("shape", &NumberedTensor::shape, at_most(3, between(1, 5))),
                      field("transposed", &NumberedTensor::transposed)};
  }
};

enum class ChangeKind { another, sign, last_bit, nan };

enum class CheckedBy { function, option };

struct Changed {
  WorldSpec world;
  std::vector<NumberedTensor> parts;  // behind the first parameter, which has one element
  int part = 0;                       // whose element is changed, counted cyclically
  int element = 0;                    // counted cyclically
  ChangeKind how = ChangeKind::another;
  std::vector<int> ranks;              // that change it, counted cyclically; empty: none
  CheckedBy by = CheckedBy::function;  // or the option, which looks in every `period`-th forward
  int period = 1;
  int forwards = 1;     // before the change, where the option looks
  bool buffers = true;  // the function looks at them, too; forwards send them
  auto operator<=>(const Changed&) const = default;
  static constexpr auto fields() {
    return std::tuple{field("world", &Changed::world),
                      field("parts", &Changed::parts, at_most(6, {})),
                      field("part", &Changed::part, between(0, 63)),
                      field("element", &Changed::element, between(0, 999)),
                      field("how", &Changed::how),
                      field("ranks", &Changed::ranks, between(0, 1023)),
                      field("by", &Changed::by),
                      field("period", &Changed::period, between(1, 4)),
                      field("forwards", &Changed::forwards, between(0, 4)),
                      field("buffers", &Changed::buffers)};
  }
};

// The first parameter and `parts`. Whole numbers are no parameters that learn.
std::vector<NumberedTensor> parts_of(const Changed& c);

size_t changed_part(const Changed& c);
int64_t changed_element(const Changed& c);
std::set<int> changing_ranks(const Changed& c);

// `how`, or another where that would mean nothing: whole numbers have no NaN, bool has no sign,
// and no tensor has a zero.
ChangeKind how_of(const Changed& c);

// Each tensor, "t0", "t1", ..., holds 1, 2, 3, ... in the order of its indices.
class Numbered : public Model {
 public:
  explicit Numbered(const Changed& c);
  at::Tensor forward(const at::Tensor& input) override;
  void change(const Changed& c);

 private:
  std::vector<at::Tensor> tensors_;
};

}  // namespace lockstep::scenarios::replicas
