#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

// An element of the stack of read_pickle. A tuple may hold what is no value: names and storages.
// Functions throw std::runtime_error, with what the pickle lacks. Everything is Local.
struct PickleItem {
  enum class Kind { kValue, kMark, kName, kStorage, kTuple };

  Kind kind = Kind::kValue;
  c10::IValue value;  // of a value; of a storage its elements
  std::string name;   // of a function or a type: "collections.OrderedDict"
  std::shared_ptr<const std::vector<PickleItem>> items;  // of a tuple
  int depth = 0;                                         // of a tuple

  static PickleItem mark();
  static PickleItem named(std::string name);
  static PickleItem of_value(c10::IValue value);
  static PickleItem tuple_of(std::vector<PickleItem> items);

  // The items of a tuple of at least so many.
  const std::vector<PickleItem>& tuple(std::size_t size_min) const;
  std::int64_t number() const;
  std::string text() const;
  std::vector<std::int64_t> numbers() const;
  c10::IValue as_value() const;
};

// The tensor that torch._utils._rebuild_tensor_v2 makes of its arguments: storage, offset, sizes,
// strides, and what autograd needs.
at::Tensor rebuilt_tensor(const std::vector<PickleItem>& arguments);

// The dtype of "torch.FloatStorage" and the like.
std::optional<at::ScalarType> dtype_of_storage(const std::string& name);

[[noreturn]] void refuse_pickle(const std::string& what);

}  // namespace lockstep
