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

// An element of the stack of read_pickle, which a memo may copy: no copy takes more time or memory
// for what is within it. A tuple may hold what is no value: names and storages. Functions throw
// std::runtime_error, with what the pickle lacks. Everything is Local.
struct PickleItem {
  enum class Kind { kValue, kMark, kName, kStorage, kTuple };

  // State that all copies of the item of a list, a dictionary or a tuple share.
  struct Nested {
    int depth = 0;                  // the levels below it
    bool is_shared = false;         // something else refers to it, so that it stays as it is
    std::vector<PickleItem> items;  // of a tuple
    c10::IValue value;              // of a tuple, once it was needed
  };

  Kind kind = Kind::kValue;
  c10::IValue value;               // also the text of a name, "collections.OrderedDict"; of a
                                   // storage its elements
  std::shared_ptr<Nested> nested;  // null for anything else

  static PickleItem mark() { return {Kind::kMark, {}, {}}; }
  static PickleItem named(std::string name);  // of a function or a type
  static PickleItem of_value(c10::IValue value) { return {Kind::kValue, std::move(value), {}}; }
  static PickleItem container(c10::IValue value);  // an empty list or dictionary
  static PickleItem tuple_of(std::vector<PickleItem> items);

  // Notes that this list or dictionary gets `item`.
  void take_in(const PickleItem& item);

  // The items of a tuple of at least so many.
  const std::vector<PickleItem>& tuple(std::size_t size_min) const;
  std::int64_t number() const;
  const std::string& text() const;  // short, and printable
  const std::string& name() const;
  std::vector<std::int64_t> extents() const;  // of a tensor
  c10::IValue as_value() const;
};

// The tensor that torch._utils._rebuild_tensor_v2 makes of its arguments: storage, offset, sizes,
// strides, and what autograd needs.
at::Tensor rebuilt_tensor(const std::vector<PickleItem>& arguments);

// The dtype of "torch.FloatStorage" and the like.
std::optional<at::ScalarType> dtype_of_storage(const std::string& name);

[[noreturn]] void refuse_pickle(const std::string& what);

// Refuses a name that is long or has anything but printable characters of ASCII.
void check_name_in_pickle(const std::string& name);

}  // namespace lockstep
