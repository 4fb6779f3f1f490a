#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace lockstep {

// Returns the elements of a storage: a 1-D tensor of `count` elements.
using ReadStorage =
    std::function<at::Tensor(const std::string& key, at::ScalarType dtype, std::int64_t count)>;

// Note [Reading Python's pickles]
// LibTorch's own unpickler reads a collections.OrderedDict as None, since TorchScript needs none,
// and so not a single state_dict of Python. This one reads what torch.load(weights_only=True)
// calls plain: tensors, numbers, strings, None, lists, tuples and dictionaries; it calls nothing
// that a file names, and refuses anything else by its name.

// Texts behind whole numbers.
struct KeyOrder {
  bool operator()(const c10::IValue& one, const c10::IValue& other) const;
};

// A dictionary of a pickle, which an IValue holds as a capsule. It is in order: a few chosen keys
// make LibTorch's own, a hash table, grow without end.
struct PickleDict : torch::CustomClassHolder {
  std::map<c10::IValue, c10::IValue, KeyOrder> entries;
};

// Null where the value is none.
c10::intrusive_ptr<PickleDict> pickle_dict(const c10::IValue& value);

// The value of a pickle that torch.save wrote, in time and memory in proportion to its bytes, and
// nested at most 64 levels deep, although values may be shared. Dictionaries have lost the
// attributes of an OrderedDict (_metadata). Local. Throws std::runtime_error with what was found,
// for any bytes that are no such pickle.
c10::IValue read_pickle(std::string_view bytes, const ReadStorage& read_storage);

}  // namespace lockstep
