#include "train/checkpoint/state.h"

#include "ddp/base/characters.h"

#include <torch/torch.h>

#include <cmath>
#include <stdexcept>

namespace lockstep {

namespace {

std::string text_of_key(const c10::IValue& key) {
  return key.isString() ? "'" + printable(key.toStringRef()) + "'" : std::to_string(key.toInt());
}

bool is_one_number(const c10::IValue& value) {
  return value.isTensor() && value.toTensor().numel() == 1 && !value.toTensor().is_complex();
}

}  // namespace

StateDict empty_dict() {
  return StateDict(c10::AnyType::get(), c10::AnyType::get());
}

at::Tensor for_archive(const at::Tensor& tensor) {
  at::Tensor plain = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous();
  if (plain.storage().nbytes() != plain.nbytes()) plain = plain.clone();
  return plain;
}

Entry Entry::at(const c10::IValue& key) const {
  const auto all = dict();
  const std::string what = text_of_key(key) + " of " + what_;
  const auto found = all->entries.find(key);
  if (found == all->entries.end()) return {std::nullopt, what};
  return {found->second, what};
}

const c10::IValue& Entry::value(const char* expected, bool (*is)(const c10::IValue&)) const {
  if (!value_) throw std::runtime_error("it lacks " + what_);
  if (!is(*value_))
    throw std::runtime_error(what_ + " is a " +
                             (pickle_dict(*value_) ? "Dict" : value_->tagKind()) + ", expected " +
                             expected);
  return *value_;
}

c10::intrusive_ptr<PickleDict> Entry::dict() const {
  return pickle_dict(
      value("a dictionary", [](const c10::IValue& each) { return pickle_dict(each) != nullptr; }));
}

c10::List<c10::IValue> Entry::list() const {
  return value("a list", [](const c10::IValue& each) { return each.isList(); }).toList();
}

at::Tensor Entry::tensor() const {
  return value("a tensor", [](const c10::IValue& each) { return each.isTensor(); }).toTensor();
}

std::int64_t Entry::whole_number() const {
  const double value = number();
  if (value_->isInt()) return value_->toInt();  // above 2^53 a double has not every one
  if (value != std::floor(value) || std::abs(value) > 9007199254740992.0)
    throw std::runtime_error(what_ + " is " + std::to_string(value) + ", expected a whole number");
  return static_cast<std::int64_t>(value);
}

double Entry::number() const {
  const c10::IValue& found = value("a number", [](const c10::IValue& each) {
    return each.isInt() || each.isDouble() || is_one_number(each);
  });
  if (found.isTensor()) return found.toTensor().item<double>();
  return found.isInt() ? static_cast<double>(found.toInt()) : found.toDouble();
}

bool Entry::flag() const {
  return value("True or False", [](const c10::IValue& each) { return each.isBool(); }).toBool();
}

std::vector<double> Entry::numbers() const {
  const c10::IValue& found = value("a tuple or a list of numbers", [](const c10::IValue& each) {
    return each.isTuple() || each.isList();
  });
  std::vector<double> numbers;
  const auto add = [&](const c10::IValue& each) { numbers.push_back(Entry(each, what_).number()); };
  if (found.isTuple())
    for (const c10::IValue& each : found.toTupleRef().elements()) add(each);
  if (found.isList())
    for (const c10::IValue& each : found.toListRef()) add(each);
  return numbers;
}

}  // namespace lockstep
