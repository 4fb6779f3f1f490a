#pragma once

#include "train/checkpoint/pickle_reader.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

// The values of a checkpoint, and how they are taken from one: first everything is compared with
// what it is to be loaded into, then all of it is assigned. Everything is Local.

using StateDict = c10::impl::GenericDict;
StateDict empty_dict();

// The assignments that remain when nothing can fail any more.
using Assignments = std::vector<std::function<void()>>;

// A copy of `tensor` as write_archive takes it: contiguous, on the CPU, of a storage of its own.
at::Tensor for_archive(const at::Tensor& tensor);

// A value of a file, which may be missing; `what` names it in errors, such as "param group 0".
class Entry {
 public:
  Entry(std::optional<c10::IValue> value, std::string what)
      : value_(std::move(value)), what_(std::move(what)) {}

  bool exists() const { return value_.has_value(); }

  // Missing, or Python's None.
  bool is_nothing() const { return !value_ || value_->isNone(); }

  Entry renamed(std::string what) const { return {value_, std::move(what)}; }

  // The entry of this dictionary. Throws std::runtime_error where this is no dictionary.
  Entry at(const c10::IValue& key) const;

  // The value, where it exists and is of this kind; throws std::runtime_error, which names it,
  // otherwise. A tensor of one element counts as its number.
  c10::intrusive_ptr<PickleDict> dict() const;
  c10::List<c10::IValue> list() const;
  at::Tensor tensor() const;
  std::int64_t whole_number() const;
  double number() const;
  bool flag() const;
  std::vector<double> numbers() const;

  const std::string& what() const { return what_; }

 private:
  const c10::IValue& value(const char* expected, bool (*is)(const c10::IValue&)) const;

  std::optional<c10::IValue> value_;
  std::string what_;
};

}  // namespace lockstep
