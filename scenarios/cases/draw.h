// Generators of Training cases, which every scenario of that shape draws from.
#pragma once

#include "harness/cases/generators.h"
#include "scenarios/cases/training.h"

#include <optional>
#include <vector>

namespace lockstep::scenarios {

// Worlds of 2 to 4, up to three steps, small networks, uneven and empty parts, every bucket cap
// that splits them differently, exact values three times in four. One batch a step, one group.
rc::Gen<Training> trainings();

// Mostly none, else a rank that is 1 to 400 ms late for one of its first collectives. A rank that
// waits polls for its peers' errors each 100 ms.
rc::Gen<std::vector<Injection>> delays();

// How an option of WrapOptions::kSwitches is drawn; without values it is off.
struct SwitchDraw {
  bool WrapOptions::*option;
  std::optional<rc::Gen<bool>> values;
};

// Options of which these members are drawn: `before`, each switch, as `switches` says but for
// `otherwise`, and `behind`. What needs another option is off without it.
rc::Gen<WrapOptions> wrap_options(std::vector<gen::Setter<WrapOptions>> before,
                                  const rc::Gen<bool>& switches,
                                  const std::vector<SwitchDraw>& otherwise = {},
                                  const std::vector<gen::Setter<WrapOptions>>& behind = {});

// `cases`, each changed by `change`.
template <class C, class Change>
rc::Gen<C> changed(rc::Gen<C> cases, Change change) {
  return gen::map(std::move(cases), [change](C c) {
    change(c);
    return c;
  });
}

// `cases` with one member drawn again.
template <class C, class T>
rc::Gen<C> with(rc::Gen<C> cases, T C::*member, rc::Gen<T> values) {
  return gen::apply(
      [member](C c, T value) {
        c.*member = std::move(value);
        return c;
      },
      std::move(cases), std::move(values));
}

}  // namespace lockstep::scenarios
