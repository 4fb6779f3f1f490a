// One field list for each struct, which gives everything a case can do: JSON both ways, refusal of
// unknown names and values by path, --set, and shrinking by value. Templates make a description of
// the struct, once; functions of the description do all the rest.
//
//   struct Sampling {
//     WorldSpec world; int64_t length = 1; bool shuffle = true;
//     static constexpr auto fields() {
//       return std::tuple{field("world", &Sampling::world),
//                         field("length", &Sampling::length, at_least(1)), ...}; } };
//
// The list is in order of cost to a reader: of fields with the same Cost shrinking tries the first
// one first. A default constructed value is the smallest. A field may be an integer, a double, a
// bool, a string, an enumeration, which is its word in JSON (base/words.h), a fielded struct, or a
// vector of these; limits on a vector hold for its elements, and its length may be limited too.
//
// Messages between processes have field lists as well. Theirs may also hold milliseconds, which are
// whole numbers in JSON, std::optional, which is left out where it is empty, and maps with names,
// which are objects.
//
// So have the files of a run. Their structs are described apart from them, by FieldsOf. They may
// hold any JSON, std::variant, and parts that the file has in another form (field<Form>), in their
// owner's object (spliced) or only where they are no default (unless_default); they have derived
// values, which are written and never read.
#pragma once

#include "harness/base/characters.h"
#include "harness/base/json.h"
#include "harness/base/words.h"

#include <chrono>
#include <concepts>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <variant>
#include <vector>

namespace lockstep {

// The allowed values of a field, beyond its type.
struct Allowed {
  int64_t least = std::numeric_limits<int64_t>::min();  // of a whole or a real number
  int64_t most = std::numeric_limits<int64_t>::max();
  std::span<const std::string_view> choices = {};       // the words of an enumeration
  bool is_ordered = true;                               // of choices: those before one are smaller
  size_t longest = std::numeric_limits<size_t>::max();  // of a list or a map
  size_t bytes_most = std::numeric_limits<size_t>::max();  // of a string
  bool (*has_form)(const std::string&) = nullptr;          // of a string; null: any will do
  std::string_view form = {};                              // for people: what has_form wants
};
constexpr Allowed at_least(int64_t least) {
  return {.least = least};
}
constexpr Allowed between(int64_t least, int64_t most) {
  return {.least = least, .most = most};
}
// Some values of an enumeration, smallest first; a field without it may have all, in their order.
template <auto... values>
inline constexpr Allowed one_of{.choices = words::kSome<values...>};
// Values of an enumeration of which none is smaller than another.
inline constexpr Allowed kUnordered{.is_ordered = false};

// A text of at most `bytes`, and one of a line without control characters, which fits a terminal.
constexpr Allowed text_up_to(size_t bytes) {
  return {.bytes_most = bytes};
}
constexpr Allowed line_up_to(size_t bytes) {
  return {.bytes_most = bytes,
          .has_form = [](const std::string& text) { return is_one_line(text); },
          .form = "one line without control characters"};
}

// A list or map of at most `longest` such elements, for example where its length is a number of
// dimensions.
constexpr Allowed at_most(size_t longest, Allowed elements) {
  elements.longest = longest;
  return elements;
}

// The cost of a field to a reader of a failing case: shrinking tries every step of one kind before
// any of the next. The cost of a struct's field is that of every field in it; `shape` leaves it to
// them.
//   world       the number of ranks
//   shape       steps, layers, batches, options: in the order of the list
//   injections  planted events
//   schedule    who runs when, what it costs, the order of sums
//   numbers     the values themselves and what they are drawn from
enum class Cost { world, shape, injections, schedule, numbers };

namespace fields {

template <class T>
struct ElementOf {
  using type = T;
};
template <class T>
struct ElementOf<std::vector<T>> : ElementOf<T> {};
template <class T>
struct ElementOf<std::optional<T>> : ElementOf<T> {};
template <class T>
struct ElementOf<std::map<std::string, T>> : ElementOf<T> {};
template <class T>
using Element = typename ElementOf<T>::type;

}  // namespace fields

// The form that JSON has of a value. Another one is a class with the type `Stored`, which is what
// JSON holds, `static Stored stored(const T&)`, and `static std::string take(Stored, T&)`, which
// says what it expected where no value is stored so. Fields of one member are read in their order.
struct SameForm {};

template <class Owner, class T, class Form>
struct Field {
  const char* name;
  T Owner::*member;
  Allowed allowed;
  Cost cost;
  bool unless_default = false;
};
template <class Form = SameForm, class Owner, class T>
constexpr Field<Owner, T, Form> field(const char* name, T Owner::*member, Allowed allowed = {},
                                      Cost cost = Cost::shape) {
  if constexpr (Enumeration<fields::Element<T>> && std::is_same_v<Form, SameForm>)
    if (allowed.choices.empty()) allowed.choices = words::kAll<fields::Element<T>>;
  return {name, member, allowed, cost};
}

// A field that JSON has only where its value is not the default one.
template <class Owner, class T, class Form>
constexpr Field<Owner, T, Form> unless_default(Field<Owner, T, Form> field) {
  field.unless_default = true;
  return field;
}

// A fielded member whose fields JSON has among those of its owner.
template <class Owner, class T>
struct Spliced {
  T Owner::*member;
};
template <class Owner, class T>
constexpr Spliced<Owner, T> spliced(T Owner::*member) {
  return {member};
}

// A value that follows from the fields, by a function or a member of their struct. Programs that
// read JSON may use it; it is behind the fields, and left out where it is null.
template <class Of>
struct Derived {
  const char* name;
  Of of;
};
template <class Of>
constexpr Derived<Of> derived(const char* name, Of of) {
  return {name, of};
}

// The field list of a struct that has none itself: `static constexpr auto fields()`. It may have
// `static std::string finish(T&)`, which fills in what no field holds once all are read, and says
// why they do not agree; empty: they do.
template <class T>
struct FieldsOf;

template <class T>
concept HasOwnFields = requires {
  T::fields();
};
template <class T>
concept Fielded = HasOwnFields<T> || requires {
  FieldsOf<T>::fields();
};

// A struct of a case may say which of its values mean nothing together: `unmet_precondition` is a
// sentence that says why, or empty.
template <class T>
concept HasPrecondition = requires(const T& value) {
  { value.unmet_precondition() } -> std::convertible_to<std::string>;
};

// A value that does not fit its field. The text names the path, what was found and what is allowed.
struct FieldError : std::runtime_error {
  using runtime_error::runtime_error;
};

// A name that no field of its struct has.
struct UnknownField : FieldError {
  using FieldError::FieldError;
};

// Every field of `value`, in the order of its list.
template <class T>
Json to_json(const T& value);

// The fields that JSON must have: any part of them, where the others keep their defaults; all but
// optional ones; all, where unknown ones are ignored.
enum class Reading { any_part, whole, whole_and_more };

// The value `json` describes. Throws FieldError, whose text starts with the path of the wrong
// field; `at` is the path of the whole value.
template <Fielded T>
T from_json(const Json& json, const std::string& at, Reading reading = Reading::any_part);

// The first precondition that a struct in `value` does not meet; empty: all are met.
template <Fielded T>
std::string unmet_precondition(const T& value);

// Every value one step smaller, as JSON, cheapest reading first; none of a default constructed
// value. A number close to its default has every value between as a step, a number far from it
// halves its distance; a seed (unsigned), whose values have no order, has the first few. A word has
// the choices before it, if they are ordered. A list has itself without any of its chunks, then
// each element one step smaller. A step that the limits of a field forbid is left out, so that
// every one is a case.
template <Fielded T>
std::vector<Json> smaller_by_field(const T& value);

// A field that is no struct, whichever struct it is in.
struct Leaf {
  enum class Type { whole, seed, real, truth, word, list };
  std::string path;  // "world.size"
  Type type = Type::whole;
  Allowed allowed = {};  // of a list: its elements
  Cost cost = Cost::shape;
};
template <Fielded T>
std::vector<Leaf> leaves_of();

// `json` with the value at `path` ("world.size", "samples[1]") replaced by `text`, read as JSON
// where it is JSON and as a string otherwise. Throws FieldError if the path does not exist,
// UnknownField if that is for a name.
Json with_value(Json json, std::string_view path, const std::string& text);

}  // namespace lockstep

#include "harness/base/fields_inl.h"
