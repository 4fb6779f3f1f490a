// Bodies of fields.h.
#pragma once

#include "harness/base/fields.h"

#include <algorithm>
#include <optional>
#include <type_traits>

namespace lockstep {
namespace fields {

[[noreturn]] void refuse(const std::string& at, const Json& found, const std::string& expected);
[[noreturn]] void refuse_unknown(const std::string& at, const std::string& name,
                                 const std::vector<std::string>& known);
[[noreturn]] void refuse_absent(const std::string& at, const std::string& name);
int64_t whole_number(const Json& json, const Allowed& allowed, const std::string& at);
void check(const std::string& value, const Allowed& allowed, const std::string& at);
void check_length(const Json& list, const Allowed& allowed, const std::string& at);
void check_name(const std::string& name, const std::string& at);

template <class T>
std::vector<std::string> names() {
  return std::apply([](auto... field) { return std::vector<std::string>{field.name...}; },
                    T::fields());
}

template <class T>
bool is_name(const std::string& name) {
  return std::apply([&](auto... field) { return ((name == field.name) || ...); }, T::fields());
}

template <class T>
void read(const Json& json, T& value, const Allowed& allowed, const std::string& at, Absent absent);

// One field of `json`, if it is there.
template <class Owner, class T>
void read_field(const Json& json, Owner& value, const Field<Owner, T>& field, const std::string& at,
                Absent absent) {
  const auto found = json.find(field.name);
  if (found != json.end())
    read(*found, value.*(field.member), field.allowed, at + "." + field.name, absent);
  else if (absent == Absent::is_refused && !IsOptional<T>::value)
    refuse_absent(at, field.name);
}

template <class T>
void read(const Json& json, T& value, const Allowed& allowed, const std::string& at,
          Absent absent) {
  if constexpr (Fielded<T>) {
    if (!json.is_object()) refuse(at, json, "an object");
    for (const auto& [name, part] : json.items())
      if (!is_name<T>(name)) refuse_unknown(at, name, names<T>());
    std::apply([&](auto... field) { (read_field(json, value, field, at, absent), ...); },
               T::fields());
  } else if constexpr (IsOptional<T>::value) {
    read(json, value.emplace(), allowed, at, absent);
  } else if constexpr (IsVector<T>::value) {
    if (!json.is_array()) refuse(at, json, "a list");
    check_length(json, allowed, at);
    value.clear();
    for (size_t i = 0; i < json.size(); ++i) {
      typename T::value_type element{};
      read(json[i], element, allowed, at + "[" + std::to_string(i) + "]", absent);
      value.push_back(std::move(element));
    }
  } else if constexpr (IsMap<T>::value) {
    if (!json.is_object()) refuse(at, json, "an object");
    check_length(json, allowed, at);
    value.clear();
    for (const auto& [name, part] : json.items()) {
      check_name(name, at);
      read(part, value[name], allowed, at + "." + name, absent);
    }
  } else if constexpr (std::is_same_v<T, bool>) {
    if (!json.is_boolean()) refuse(at, json, "true or false");
    value = json.template get<bool>();
  } else if constexpr (std::is_same_v<T, std::string>) {
    if (!json.is_string()) refuse(at, json, "a string");
    value = json.template get<std::string>();
    check(value, allowed, at);
  } else if constexpr (std::is_floating_point_v<T>) {
    if (!json.is_number()) refuse(at, json, "a number");
    value = json.template get<T>();
  } else if constexpr (Enumeration<T>) {
    std::string word;
    read(json, word, allowed, at, absent);
    value = value_of_word<T>(word).value();
  } else if constexpr (std::is_same_v<T, std::chrono::milliseconds>) {
    value = std::chrono::milliseconds(whole_number(json, allowed, at));
  } else if constexpr (std::is_unsigned_v<T>) {
    if (!json.is_number_unsigned()) refuse(at, json, "a whole number of at least 0");
    value = json.template get<T>();
  } else {
    static_assert(std::is_integral_v<T>, "a field is of a type that fields.h names");
    const int64_t wide = whole_number(json, allowed, at);
    if (!std::in_range<T>(wide)) refuse(at, json, "a number that fits its field");
    value = static_cast<T>(wide);
  }
}

constexpr Cost cost_within(Cost outer, Cost inner) {
  return outer == Cost::shape ? inner : outer;
}

// So many values next to the default are tried one by one.
inline constexpr uint64_t kFewValues = 8;

template <class T>
rc::Seq<T> smaller_number(T value, T simplest) {
  const bool is_above = simplest < value;
  const auto distance = is_above ? static_cast<uint64_t>(value) - static_cast<uint64_t>(simplest)
                                 : static_cast<uint64_t>(simplest) - static_cast<uint64_t>(value);
  if (distance > kFewValues && std::is_signed_v<T>) return rc::shrink::towards(value, simplest);
  std::vector<T> between;
  for (uint64_t i = 0; i < std::min(distance, kFewValues); ++i)
    between.push_back(static_cast<T>(is_above ? static_cast<uint64_t>(simplest) + i
                                              : static_cast<uint64_t>(simplest) - i));
  return rc::seq::fromContainer(std::move(between));
}

std::vector<std::string> smaller_words(const std::string& value, const std::string& simplest,
                                       const Allowed& allowed);

// The steps of fields whose cost is `wanted`, or of all; `cost` is that of the value itself.
template <class T>
rc::Seq<T> smaller(const T& value, const T& simplest, const Allowed& allowed, Cost cost,
                   std::optional<Cost> wanted) {
  if constexpr (Fielded<T>) {
    return std::apply(
        [&](auto... field) {
          return rc::seq::concat(
              rc::seq::map(smaller(value.*(field.member), simplest.*(field.member), field.allowed,
                                   cost_within(cost, field.cost), wanted),
                           [value, field](auto part) {
                             T copy = value;
                             copy.*(field.member) = std::move(part);
                             return copy;
                           })...);
        },
        T::fields());
  } else if (value == simplest || (wanted && *wanted != cost)) {
    return rc::Seq<T>();
  } else if constexpr (IsVector<T>::value) {
    using Element = typename T::value_type;
    Element simplest_element{};
    if constexpr (Enumeration<Element>)
      simplest_element = value_of_word<Element>(allowed.choices.front()).value();
    return rc::seq::concat(
        rc::seq::just(simplest), rc::shrink::removeChunks(value),
        rc::shrink::eachElement(value, [allowed, cost, simplest_element](const Element& element) {
          return smaller(element, simplest_element, allowed, cost, {});
        }));
  } else if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
    return smaller_number(value, simplest);
  } else if constexpr (std::is_same_v<T, std::string>) {
    return rc::seq::fromContainer(smaller_words(value, simplest, allowed));
  } else if constexpr (Enumeration<T>) {
    return rc::seq::map(smaller(word_of(value), word_of(simplest), allowed, cost, wanted),
                        [](const std::string& word) { return value_of_word<T>(word).value(); });
  } else {
    return rc::seq::just(simplest);
  }
}

bool is_choice(std::string_view value, const Allowed& allowed);

// True of a value that `read` would accept.
template <class T>
bool fits(const T& value, const Allowed& allowed) {
  if constexpr (Fielded<T>) {
    return std::apply(
        [&](auto... field) { return (fits(value.*(field.member), field.allowed) && ...); },
        T::fields());
  } else if constexpr (IsVector<T>::value) {
    return value.size() <= allowed.longest &&
           std::all_of(value.begin(), value.end(),
                       [&](const auto& element) { return fits(element, allowed); });
  } else if constexpr (std::is_same_v<T, std::string>) {
    return is_choice(value, allowed);
  } else if constexpr (Enumeration<T>) {
    return is_choice(word_of(value), allowed);
  } else if constexpr (std::is_integral_v<T> && std::is_signed_v<T>) {
    return value >= allowed.least && value <= allowed.most;
  } else {
    return true;
  }
}

template <class T>
std::string unmet(const T& value) {
  std::string why;
  if constexpr (HasPrecondition<T>) why = value.unmet_precondition();
  const auto add = [&](const auto& part) {
    if (why.empty()) why = unmet(part);
  };
  if constexpr (Fielded<T>)
    std::apply([&](auto... field) { (add(value.*(field.member)), ...); }, T::fields());
  else if constexpr (IsVector<T>::value)
    for (const typename T::value_type& part : value) add(part);
  return why;
}

template <class T>
constexpr Leaf::Type leaf_type() {
  if constexpr (IsVector<T>::value) return Leaf::Type::list;
  if constexpr (std::is_same_v<T, bool>) return Leaf::Type::truth;
  if constexpr (std::is_same_v<T, std::string> || Enumeration<T>) return Leaf::Type::word;
  if constexpr (std::is_floating_point_v<T>) return Leaf::Type::real;
  return std::is_unsigned_v<T> ? Leaf::Type::seed : Leaf::Type::whole;
}

template <class T>
void add_leaves(const std::string& path, const Allowed& allowed, Cost cost,
                std::vector<Leaf>& leaves) {
  if constexpr (Fielded<T>) {
    const auto add = [&]<class Owner, class Part>(const Field<Owner, Part>& field) {
      add_leaves<Part>((path.empty() ? "" : path + ".") + field.name, field.allowed,
                       cost_within(cost, field.cost), leaves);
    };
    std::apply([&](auto... field) { (add(field), ...); }, T::fields());
  } else {
    leaves.push_back({path, leaf_type<T>(), allowed, cost});
  }
}

}  // namespace fields

template <class T>
Json to_json(const T& value) {
  if constexpr (Fielded<T>) {
    Json json = Json::object();
    const auto add = [&](auto field) {
      const auto& part = value.*(field.member);
      if constexpr (fields::IsOptional<std::decay_t<decltype(part)>>::value) {
        if (part) json[field.name] = to_json(*part);
      } else {
        json[field.name] = to_json(part);
      }
    };
    std::apply([&](auto... field) { (add(field), ...); }, T::fields());
    return json;
  } else if constexpr (fields::IsVector<T>::value) {
    Json json = Json::array();
    for (const auto& element : value) json.push_back(to_json(element));
    return json;
  } else if constexpr (fields::IsMap<T>::value) {
    Json json = Json::object();
    for (const auto& [name, part] : value) json[name] = to_json(part);
    return json;
  } else if constexpr (Enumeration<T>) {
    return Json(word_of(value));
  } else if constexpr (std::is_same_v<T, std::chrono::milliseconds>) {
    return Json(value.count());
  } else {
    return Json(value);
  }
}

template <Fielded T>
T from_json(const Json& json, const std::string& at, Absent absent) {
  T value{};
  fields::read(json, value, Allowed{}, at, absent);
  return value;
}

// A step that the limits of a field forbid is left out, so that every shrink is a case.
template <Fielded T>
rc::Seq<T> smaller_by_field(const T& value) {
  const auto of_cost = [&](Cost cost) {
    return fields::smaller(value, T{}, Allowed{}, Cost::shape, cost);
  };
  return rc::seq::filter(
      rc::seq::concat(of_cost(Cost::world), of_cost(Cost::shape), of_cost(Cost::injections),
                      of_cost(Cost::schedule), of_cost(Cost::numbers)),
      [](const T& candidate) { return fields::fits(candidate, Allowed{}); });
}

template <Fielded T>
std::string unmet_precondition(const T& value) {
  return fields::unmet(value);
}

template <Fielded T>
std::vector<Leaf> leaves_of() {
  std::vector<Leaf> leaves;
  fields::add_leaves<T>("", Allowed{}, Cost::shape, leaves);
  return leaves;
}

}  // namespace lockstep
