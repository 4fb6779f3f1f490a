// RapidCheck's combinators without its trees of shrinks: a case is shrunk by its fields (fields.h),
// and the trees take most of the time in which a scenario compiles. Each one draws from the same
// random numbers what its namesake in rc::gen draws.
#pragma once

#include <rapidcheck.h>

#include <functional>
#include <type_traits>
#include <utility>
#include <vector>

namespace lockstep::gen {

// Draws what `draw(random, size)` returns.
template <class Draw>
auto drawn(Draw draw) {
  using T = std::invoke_result_t<Draw, const rc::Random&, int>;
  return rc::Gen<T>([draw = std::move(draw)](const rc::Random& random, int size) {
    return rc::shrinkable::just(draw(random, size));
  });
}

// Draws one member of an owner.
template <class Owner>
using Setter = std::function<void(Owner&, const rc::Random&, int size)>;

template <class Owner, class Member, class T>
Setter<Owner> set(Member Owner::*member, rc::Gen<T> values) {
  return [member, values = std::move(values)](Owner& owner, const rc::Random& random, int size) {
    owner.*member = values(random, size).value();
  };
}

template <class Owner, class Member>
Setter<Owner> set(Member Owner::*member) {
  return set(member, rc::gen::arbitrary<Member>());
}

template <class Owner>
rc::Gen<Owner> build_from(std::vector<Setter<Owner>> setters) {
  return drawn([setters = std::move(setters)](const rc::Random& random, int size) {
    auto numbers = random;
    numbers.split();  // rc::gen::build draws the owner first
    Owner owner{};
    for (const auto& setter : setters) setter(owner, numbers.split(), size);
    return owner;
  });
}

// A default constructed owner with these members drawn.
template <class Owner, class... Setters>
rc::Gen<Owner> build(Setters... setters) {
  return build_from<Owner>({std::move(setters)...});
}

template <class T, class Map>
auto map(rc::Gen<T> values, Map map) {
  return drawn(
      [values = std::move(values), map = std::move(map)](const rc::Random& random, int size) {
        return map(values(random, size).value());
      });
}

// `map` returns a generator, from which the value is drawn.
template <class T, class Map>
auto mapcat(rc::Gen<T> values, Map map) {
  return drawn(
      [values = std::move(values), map = std::move(map)](const rc::Random& random, int size) {
        auto first = random;
        const auto second = first.split();
        return map(values(first, size).value())(second, size).value();
      });
}

template <class Map, class... Ts>
auto apply(Map map, rc::Gen<Ts>... values) {
  return drawn(
      [map = std::move(map), ... values = std::move(values)](const rc::Random& random, int size) {
        auto numbers = random;
        const auto next = [&] { return numbers.split(); };
        // Braces, so that arguments are drawn in their order.
        return std::apply(map, std::tuple<Ts...>{values(next(), size).value()...});
      });
}

template <class T>
rc::Gen<std::vector<T>> lists(size_t count, rc::Gen<T> elements) {
  return drawn([count, elements = std::move(elements)](const rc::Random& random, int size) {
    auto numbers = random;
    std::vector<T> list;
    for (size_t i = 0; i < count; ++i) list.push_back(elements(numbers.split(), size).value());
    return list;
  });
}

// Lists of `least` to `most` elements.
template <class T>
rc::Gen<std::vector<T>> lists(size_t least, size_t most, rc::Gen<T> elements) {
  return mapcat(rc::gen::inRange<size_t>(least, most + 1),
                [elements = std::move(elements)](size_t count) { return lists(count, elements); });
}

}  // namespace lockstep::gen
