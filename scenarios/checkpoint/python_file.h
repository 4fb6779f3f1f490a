// Files as Python's torch.save writes them: a pickle of dictionaries, lists, numbers and tensors,
// in a zip archive with a record for each storage. Python writes the same value in several ways;
// docs.python.org's pickletools says what each opcode means.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::scenarios::checkpoint {

struct PythonObject {
  // `ordered_dict` is a collections.OrderedDict with attributes, as a state_dict has; `named` is a
  // class, which a plain file does not hold.
  enum class Kind {
    none,
    boolean,
    whole,
    real,
    text,
    tensor,
    parameter,
    list,
    tuple,
    dict,
    ordered_dict,
    named
  };
  using Items = std::vector<PythonObject>;

  Kind kind = Kind::none;
  int64_t whole = 0;
  double real = 0;
  std::string text;   // "module.name" of a class
  at::Tensor tensor;  // of any strides; tensors may share a storage
  Items items = {};   // of a dictionary: key, value, key, ...

  static PythonObject of(bool value) { return {.kind = Kind::boolean, .whole = value, .text = {}}; }
  static PythonObject of(int64_t value) {
    return {.kind = Kind::whole, .whole = value, .text = {}};
  }
  static PythonObject of(double value) { return {.kind = Kind::real, .real = value, .text = {}}; }
  static PythonObject of(const char* value) { return {.kind = Kind::text, .text = value}; }
  static PythonObject of(std::string value) {
    return {.kind = Kind::text, .text = std::move(value)};
  }
  static PythonObject of(at::Tensor value) {
    return {.kind = Kind::tensor, .text = {}, .tensor = std::move(value)};
  }
  static PythonObject of(Kind kind, Items items = {}) {
    return {.kind = kind, .text = {}, .tensor = {}, .items = std::move(items)};
  }

  // To a dictionary.
  template <class Key>
  void add(Key key, PythonObject value) {
    items.push_back(of(std::move(key)));
    items.push_back(std::move(value));
  }
};

// How Python writes them. From protocol 4 on texts are short, names are on the stack, and bytes are
// in frames; Python's pickler refers to a text that it has written, and another may write it again.
struct PickleStyle {
  int protocol = 2;  // of 2 to 5
  bool refers = true;
};

// The bytes of the archive: a pickle, and each of these tensors' storages.
std::string archive_of(const std::string& pickle, const std::vector<at::Tensor>& storages);

// The bytes of such a file.
std::string python_file(const PythonObject& value, const PickleStyle& style);

}  // namespace lockstep::scenarios::checkpoint
