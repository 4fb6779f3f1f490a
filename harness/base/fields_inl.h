// Bodies of fields.h.
#pragma once

#include "harness/base/fields.h"

#include <type_traits>
#include <utility>

namespace lockstep {
namespace fields {

struct Type;

struct Member {
  const char* name;
  const Type* type;
  std::ptrdiff_t at;  // bytes behind the object's address
  Allowed allowed;
  Cost cost;
};

// A type of field, for the functions of fields.cpp, which know a value by its address.
struct Type {
  enum class Kind { whole, seed, real, truth, text, word, list, optional, map, object };
  Kind kind = Kind::whole;

  // These are null of containers and objects. `set` returns false for a number that does not fit.
  Json (*get)(const void* value) = nullptr;
  bool (*set)(void* value, const Json& json) = nullptr;

  // These are a container's. `add` makes a default constructed part and returns its address; the
  // names are those of a map.
  const Type* part = nullptr;
  void (*clear)(void* value) = nullptr;
  void* (*add)(void* value, const std::string& name) = nullptr;
  void (*each)(const void* value,
               const std::function<void(const std::string& name, const void* part)>& take) =
      nullptr;

  std::vector<Member> members = {};  // of an object
  // Says why the precondition of an object is not met; null of one that has none.
  std::string (*unmet)(const void* value) = nullptr;

  Json (*smallest)() = nullptr;  // a default constructed value
};

[[noreturn]] void refuse(const std::string& at, const Json& found, const std::string& expected);
[[noreturn]] void refuse_unknown(const std::string& at, const std::string& name,
                                 const std::vector<std::string>& known);

bool is_choice(std::string_view value, const Allowed& allowed);
Cost cost_within(Cost outer, Cost inner);  // of a field in a field

Json written(const Type& type, const void* value);
void read(const Type& type, const Json& json, void* value, const Allowed& allowed,
          const std::string& at, Absent absent);
std::string unmet(const Type& type, const void* value);
std::vector<Json> smaller(const Type& type, const Json& value);
std::vector<Leaf> leaves_of(const Type& type);

template <class T>
const Type& type_of();

template <class T>
T& value_at(void* value) {
  return *static_cast<T*>(value);
}
template <class T>
const T& value_at(const void* value) {
  return *static_cast<const T*>(value);
}

template <class T>
struct TypeOf {
  static Type make() {
    if constexpr (Enumeration<T>)
      return {.kind = Type::Kind::word,
              .get = [](const void* value) { return Json(word_of(value_at<T>(value))); },
              .set =
                  [](void* value, const Json& json) {
                    value_at<T>(value) =
                        value_of_word<T>(json.get_ref<const std::string&>()).value();
                    return true;
                  }};
    else if constexpr (std::is_same_v<T, std::chrono::milliseconds>)
      return {.kind = Type::Kind::whole,
              .get = [](const void* value) { return Json(value_at<T>(value).count()); },
              .set =
                  [](void* value, const Json& json) {
                    value_at<T>(value) = T(json.get<int64_t>());
                    return true;
                  }};
    else
      return {.kind = kind(),
              .get = [](const void* value) { return Json(value_at<T>(value)); },
              .set =
                  [](void* value, const Json& json) {
                    if constexpr (kind() == Type::Kind::whole)
                      if (!std::in_range<T>(json.get<int64_t>())) return false;
                    value_at<T>(value) = json.get<T>();
                    return true;
                  }};
  }

 private:
  static constexpr Type::Kind kind() {
    if (std::is_same_v<T, bool>) return Type::Kind::truth;
    if (std::is_same_v<T, std::string>) return Type::Kind::text;
    if (std::is_floating_point_v<T>) return Type::Kind::real;
    static_assert(std::is_arithmetic_v<T> || std::is_same_v<T, std::string>,
                  "a field is of a type that fields.h names");
    return std::is_unsigned_v<T> ? Type::Kind::seed : Type::Kind::whole;
  }
};

template <class T>
struct TypeOf<std::vector<T>> {
  using List = std::vector<T>;
  static Type make() {
    return {.kind = Type::Kind::list,
            .part = &type_of<T>(),
            .clear = [](void* value) { value_at<List>(value).clear(); },
            .add = [](void* value, const std::string&) -> void* {
              return &value_at<List>(value).emplace_back();
            },
            .each =
                [](const void* value, const auto& take) {
                  for (const auto& part : value_at<List>(value)) take("", &part);
                }};
  }
};

template <class T>
struct TypeOf<std::optional<T>> {
  using Optional = std::optional<T>;
  static Type make() {
    return {.kind = Type::Kind::optional,
            .part = &type_of<T>(),
            .clear = [](void* value) { value_at<Optional>(value).reset(); },
            .add = [](void* value, const std::string&) -> void* {
              return &value_at<Optional>(value).emplace();
            },
            .each =
                [](const void* value, const auto& take) {
                  if (const auto& part = value_at<Optional>(value)) take("", &*part);
                }};
  }
};

template <class T>
struct TypeOf<std::map<std::string, T>> {
  using Map = std::map<std::string, T>;
  static Type make() {
    return {.kind = Type::Kind::map,
            .part = &type_of<T>(),
            .clear = [](void* value) { value_at<Map>(value).clear(); },
            .add = [](void* value, const std::string& name) -> void* {
              return &value_at<Map>(value)[name];
            },
            .each =
                [](const void* value, const auto& take) {
                  for (const auto& [name, part] : value_at<Map>(value)) take(name, &part);
                }};
  }
};

template <Fielded T>
struct TypeOf<T> {
  static Type make() {
    Type type{.kind = Type::Kind::object};
    const T example{};
    const auto* const start = reinterpret_cast<const char*>(&example);
    const auto add = [&]<class Part>(const Field<T, Part>& field) {
      const auto* const part = reinterpret_cast<const char*>(&(example.*field.member));
      type.members.push_back(
          {field.name, &type_of<Part>(), part - start, field.allowed, field.cost});
    };
    std::apply([&](const auto&... field) { (add(field), ...); }, T::fields());
    if constexpr (HasPrecondition<T>)
      type.unmet = [](const void* value) -> std::string {
        return value_at<T>(value).unmet_precondition();
      };
    return type;
  }
};

template <class T>
const Type& type_of() {
  static const Type type = [] {
    auto made = TypeOf<T>::make();
    made.smallest = [] {
      const T smallest{};
      return written(type_of<T>(), &smallest);
    };
    return made;
  }();
  return type;
}

template <class T>
void read(const Json& json, T& value, const Allowed& allowed, const std::string& at,
          Absent absent) {
  read(type_of<T>(), json, &value, allowed, at, absent);
}

}  // namespace fields

template <class T>
Json to_json(const T& value) {
  return fields::written(fields::type_of<T>(), &value);
}

template <Fielded T>
T from_json(const Json& json, const std::string& at, Absent absent) {
  T value{};
  fields::read(json, value, Allowed{}, at, absent);
  return value;
}

template <Fielded T>
std::vector<Json> smaller_by_field(const T& value) {
  return fields::smaller(fields::type_of<T>(), to_json(value));
}

template <Fielded T>
std::string unmet_precondition(const T& value) {
  return fields::unmet(fields::type_of<T>(), &value);
}

template <Fielded T>
std::vector<Leaf> leaves_of() {
  return fields::leaves_of(fields::type_of<T>());
}

}  // namespace lockstep
