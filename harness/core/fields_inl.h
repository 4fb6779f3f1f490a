// Bodies of fields.h.
#pragma once

#include "harness/core/fields.h"

#include <type_traits>

namespace lockstep {
namespace fields {

template <class T>
struct IsVector : std::false_type {};
template <class T>
struct IsVector<std::vector<T>> : std::true_type {};

template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};

template <class T>
struct IsMap : std::false_type {};
template <class T>
struct IsMap<std::map<std::string, T>> : std::true_type {};

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
  } else if constexpr (std::is_enum_v<T>) {
    value = static_cast<T>(whole_number(json, allowed, at));
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

template <class T>
rc::Seq<T> smaller(const T& value, const T& simplest) {
  if constexpr (Fielded<T>) {
    return std::apply(
        [&](auto... field) {
          return rc::seq::concat(rc::seq::map(
              smaller(value.*(field.member), simplest.*(field.member)), [value, field](auto part) {
                T copy = value;
                copy.*(field.member) = std::move(part);
                return copy;
              })...);
        },
        T::fields());
  } else if constexpr (IsVector<T>::value) {
    if (value == simplest) return rc::Seq<T>();
    using Element = typename T::value_type;
    return rc::seq::concat(rc::seq::just(simplest), rc::shrink::removeChunks(value),
                           rc::shrink::eachElement(value, [](const Element& element) {
                             return smaller(element, Element{});
                           }));
  } else if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
    return rc::shrink::towards(value, simplest);
  } else {
    return value == simplest ? rc::Seq<T>() : rc::seq::just(simplest);
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
  } else if constexpr (std::is_enum_v<T>) {
    return Json(static_cast<int64_t>(value));
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
  return rc::seq::filter(fields::smaller(value, T{}), [](const T& candidate) {
    try {
      from_json<T>(to_json(candidate), "");
      return true;
    } catch (const FieldError&) {
      return false;
    }
  });
}

}  // namespace lockstep
