// Bodies of fields.h, and the descriptions of types that they make and fields.cpp follows.
#pragma once

#include "harness/base/fields.h"

#include <functional>
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
  bool unless_default = false;
};

// A value that is written behind the members.
struct DerivedMember {
  const char* name;
  std::ptrdiff_t at;  // of the object that it follows from
  std::function<Json(const void* object)> value;
};

// A type of field, for the functions of fields.cpp, which know a value by its address.
struct Type {
  enum class Kind { whole, seed, real, truth, text, word, any, list, optional, map, object, other };
  Kind kind = Kind::whole;

  // These are null of containers and objects. `set` returns false for a number that does not fit.
  Json (*get)(const void* value) = nullptr;
  bool (*set)(void* value, const Json& json) = nullptr;
  // Reads a value of another form, or one of several types.
  void (*take)(void* value, const Json& json, const Allowed& allowed, const std::string& at,
               Reading reading) = nullptr;

  // These are a container's. `add` makes a default constructed part and returns its address; the
  // names are those of a map.
  const Type* part = nullptr;
  void (*clear)(void* value) = nullptr;
  void* (*add)(void* value, const std::string& name) = nullptr;
  void (*each)(const void* value,
               const std::function<void(const std::string& name, const void* part)>& take) =
      nullptr;

  std::vector<Member> members = {};  // of an object
  std::vector<DerivedMember> derived = {};
  std::string (*finish)(void* value) = nullptr;  // of an object that has one
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
          const std::string& at, Reading reading);
std::string unmet(const Type& type, const void* value);
std::vector<Json> smaller(const Type& type, const Json& value);
std::vector<Leaf> leaves_of(const Type& type);

template <class T, class Form = SameForm>
const Type& type_of();
template <class T>
void read(const Json& json, T& value, const Allowed& allowed, const std::string& at,
          Reading reading);

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
    if (std::is_same_v<T, Json>) return Type::Kind::any;
    if (std::is_floating_point_v<T>) return Type::Kind::real;
    static_assert(
        std::is_arithmetic_v<T> || std::is_same_v<T, std::string> || std::is_same_v<T, Json>,
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

// A string is known by its kind, an object by its first field; the last type may be any other.
template <class... Parts>
struct TypeOf<std::variant<Parts...>> {
  using Variant = std::variant<Parts...>;
  static Type make() {
    return {.kind = Type::Kind::other,
            .get =
                [](const void* value) {
                  return std::visit([](const auto& part) { return to_json(part); },
                                    value_at<Variant>(value));
                },
            .take =
                [](void* value, const Json& json, const Allowed& allowed, const std::string& at,
                   Reading reading) {
                  auto& all = value_at<Variant>(value);
                  size_t chosen = 0;
                  while (chosen + 1 < sizeof...(Parts) && !kFits[chosen](json)) ++chosen;
                  size_t number = 0;
                  const auto read_chosen = [&]<class Part>(const Part*) {
                    if (number++ == chosen)
                      read(json, all.template emplace<Part>(), allowed, at, reading);
                  };
                  (read_chosen(static_cast<const Parts*>(nullptr)), ...);
                }};
  }

 private:
  template <class Part>
  static bool fits(const Json& json) {
    const auto& type = type_of<Part>();
    return type.members.empty() ? json.is_string()
                                : json.is_object() && json.contains(type.members.front().name);
  }
  static constexpr bool (*kFits[])(const Json&) = {&fits<Parts>...};
};

template <class T, class Form>
struct TypeInForm {
  using Stored = typename Form::Stored;
  static Type make() {
    return {
        .kind = Type::Kind::other,
        .get = [](const void* value) { return to_json<Stored>(Form::stored(value_at<T>(value))); },
        .take =
            [](void* value, const Json& json, const Allowed& allowed, const std::string& at,
               Reading reading) {
              Stored stored{};
              read(json, stored, allowed, at, reading);
              const auto expected = Form::take(std::move(stored), value_at<T>(value));
              if (!expected.empty()) refuse(at, json, expected);
            }};
  }
};
template <class T>
struct TypeInForm<T, SameForm> : TypeOf<T> {};

template <Fielded T>
struct TypeOf<T> {
  static Type make() {
    Type type{.kind = Type::Kind::object};
    std::apply([&](const auto&... field) { (add(field, type), ...); }, list());
    if constexpr (HasPrecondition<T>)
      type.unmet = [](const void* value) -> std::string {
        return value_at<T>(value).unmet_precondition();
      };
    if constexpr (requires(T & value) { FieldsOf<T>::finish(value); })
      type.finish = [](void* value) { return FieldsOf<T>::finish(value_at<T>(value)); };
    return type;
  }

 private:
  static constexpr auto list() {
    if constexpr (HasOwnFields<T>)
      return T::fields();
    else
      return FieldsOf<T>::fields();
  }

  template <class Part>
  static std::ptrdiff_t place_of(Part T::*member) {
    const T example{};
    return reinterpret_cast<const char*>(&(example.*member)) -
           reinterpret_cast<const char*>(&example);
  }

  template <class Part, class Form>
  static void add(const Field<T, Part, Form>& field, Type& type) {
    type.members.push_back({field.name, &type_of<Part, Form>(), place_of(field.member),
                            field.allowed, field.cost, field.unless_default});
  }

  template <class Part>
  static void add(const Spliced<T, Part>& part, Type& type) {
    static_assert(!requires(Part & value) { FieldsOf<Part>::finish(value); });
    const auto at = place_of(part.member);
    for (auto member : type_of<Part>().members) {
      member.at += at;
      type.members.push_back(member);
    }
    for (auto value : type_of<Part>().derived) {
      value.at += at;
      type.derived.push_back(std::move(value));
    }
  }

  template <class Of>
  static void add(const Derived<Of>& value, Type& type) {
    type.derived.push_back({value.name, 0, [of = value.of](const void* object) {
                              return Json(std::invoke(of, value_at<T>(object)));
                            }});
  }
};

template <class T, class Form>
const Type& type_of() {
  static const Type type = [] {
    auto made = TypeInForm<T, Form>::make();
    made.smallest = [] {
      const T smallest{};
      return written(type_of<T, Form>(), &smallest);
    };
    return made;
  }();
  return type;
}

template <class T>
void read(const Json& json, T& value, const Allowed& allowed, const std::string& at,
          Reading reading) {
  read(type_of<T>(), json, &value, allowed, at, reading);
}

}  // namespace fields

template <class T>
Json to_json(const T& value) {
  return fields::written(fields::type_of<T>(), &value);
}

template <Fielded T>
T from_json(const Json& json, const std::string& at, Reading reading) {
  T value{};
  fields::read(json, value, Allowed{}, at, reading);
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
