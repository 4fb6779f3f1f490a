// Descriptions of the types of fields, which fields_inl.h makes and fields.cpp follows.
#pragma once

#include "harness/base/fields.h"

namespace lockstep::fields {

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

}  // namespace lockstep::fields
