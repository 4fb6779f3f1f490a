// A generator that most shapes of cases use.
#pragma once

#include <rapidcheck.h>

#include <vector>

namespace lockstep::scenarios {

// Lists of `least` to `most` elements.
template <class T>
rc::Gen<std::vector<T>> lists(size_t least, size_t most, const rc::Gen<T>& elements) {
  return rc::gen::mapcat(rc::gen::inRange<size_t>(least, most + 1), [elements](size_t count) {
    return rc::gen::container<std::vector<T>>(count, elements);
  });
}

}  // namespace lockstep::scenarios
