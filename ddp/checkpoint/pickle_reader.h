#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <functional>
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

// The value of a pickle that torch.save wrote; dictionaries are GenericDict of any keys and values,
// and have lost the attributes of an OrderedDict (_metadata). Local. Throws std::runtime_error with
// what was found, for any bytes that are no such pickle.
c10::IValue read_pickle(std::string_view bytes, const ReadStorage& read_storage);

}  // namespace lockstep
