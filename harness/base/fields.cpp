#include "harness/base/fields.h"

#include "harness/base/characters.h"
#include "harness/base/parse_json.h"
#include "harness/base/text.h"

#include <algorithm>

namespace lockstep {
namespace fields {

void refuse(const std::string& at, const Json& found, const std::string& expected) {
  throw FieldError(at + ": expected " + expected + ", found " + excerpt(found.dump()));
}

void refuse_unknown(const std::string& at, const std::string& name,
                    const std::vector<std::string>& known) {
  throw UnknownField(at + ": unknown field '" + excerpt(one_line(name)) + "'" +
                     did_you_mean(name, known) + "; known: " + joined(known, ", "));
}

void refuse_absent(const std::string& at, const std::string& name) {
  throw FieldError(at + ": has no '" + name + "'");
}

int64_t whole_number(const Json& json, const Allowed& allowed, const std::string& at) {
  if (!json.is_number_integer()) refuse(at, json, "a whole number");
  const auto value = json.get<int64_t>();
  if (json.is_number_unsigned() && value < 0) refuse(at, json, "a number below 2^63");
  if (value < allowed.least)
    throw FieldError(at + ": " + std::to_string(value) + " is too small; the least is " +
                     std::to_string(allowed.least));
  if (value > allowed.most)
    throw FieldError(at + ": " + std::to_string(value) + " is too large; the most is " +
                     std::to_string(allowed.most));
  return value;
}

bool is_choice(std::string_view value, const Allowed& allowed) {
  return allowed.choices.empty() ||
         std::ranges::find(allowed.choices, value) != allowed.choices.end();
}

void check(const std::string& value, const Allowed& allowed, const std::string& at) {
  if (value.size() > allowed.bytes_most)
    throw FieldError(at + ": a text of " + std::to_string(value.size()) +
                     " bytes is too long; the longest has " + std::to_string(allowed.bytes_most));
  if (allowed.has_form && !allowed.has_form(value))
    refuse(at, Json(value), std::string(allowed.form));
  if (is_choice(value, allowed)) return;
  const std::vector<std::string> choices(allowed.choices.begin(), allowed.choices.end());
  throw FieldError(at + ": unknown value '" + excerpt(value) + "'" + did_you_mean(value, choices) +
                   "; known: " + joined(choices, ", "));
}

void check_length(const Json& list, const Allowed& allowed, const std::string& at) {
  if (list.size() > allowed.longest)
    throw FieldError(at + ": a list of " + std::to_string(list.size()) +
                     " is too long; the longest has " + std::to_string(allowed.longest));
}

// The simplest word, then the choices before `value`; none where choices have no order.
std::vector<std::string> smaller_words(const std::string& value, const std::string& simplest,
                                       const Allowed& allowed) {
  if (!allowed.is_ordered) return {};
  std::vector<std::string> words{simplest};
  for (const auto choice : allowed.choices) {
    if (choice == value) break;
    if (choice != simplest) words.emplace_back(choice);
  }
  return words;
}

// A name is quoted in errors and reports.
void check_name(const std::string& name, const std::string& at) {
  constexpr size_t kBytesMost = 200;
  if (name.empty() || name.size() > kBytesMost || !is_one_line(name))
    throw FieldError(at + ": " + excerpt(Json(name).dump(-1, ' ', true)) +
                     " is no name: one line of 1 to " + std::to_string(kBytesMost) + " bytes");
}

}  // namespace fields

namespace {

// The paths of all fields of that name, outside of lists.
void add_paths(const Json& json, const std::string& name, const std::string& prefix,
               std::vector<std::string>& paths) {
  if (!json.is_object()) return;
  for (const auto& item : json.items()) {
    if (item.key() == name) paths.push_back(prefix + name);
    add_paths(item.value(), name, prefix + item.key() + ".", paths);
  }
}

// One step of a path: a name, then any number of [index].
Json& step_into(Json& json, const std::string& step, const std::string& so_far) {
  const auto bracket = step.find('[');
  const std::string name = step.substr(0, bracket);
  if (!json.is_object() || !json.contains(name)) {
    std::vector<std::string> known;
    if (json.is_object())
      for (const auto& item : json.items()) known.push_back(item.key());
    fields::refuse_unknown(so_far, name, known);
  }
  Json* found = &json[name];
  for (size_t at = bracket; at != std::string::npos; at = step.find('[', at + 1)) {
    const auto index = parsed_int(step.substr(at + 1, step.find(']', at) - at - 1));
    if (!index || !found->is_array() || *index < 0 || static_cast<size_t>(*index) >= found->size())
      throw FieldError(so_far + "." + step + ": no such element; the list is " +
                       excerpt(found->dump()));
    found = &(*found)[static_cast<size_t>(*index)];
  }
  return *found;
}

}  // namespace

Json with_value(Json json, std::string_view path, const std::string& text) {
  Json* found = &json;
  std::string so_far = "case";
  const auto steps = split(path, '.');
  try {
    for (const auto& step : steps) {
      found = &step_into(*found, step, so_far);
      so_far += "." + step;
    }
  } catch (const UnknownField&) {
    std::vector<std::string> paths;
    add_paths(json, steps.back(), "", paths);
    if (paths.empty()) throw;
    throw UnknownField("case: unknown field '" + std::string(path) + "' (did you mean '" +
                       joined(paths, "' or '") + "'?)");
  }
  try {
    *found = parse_json(text, so_far);
  } catch (const NotJson&) {
    *found = text;
  }
  return json;
}

}  // namespace lockstep
