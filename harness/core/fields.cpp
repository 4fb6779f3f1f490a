#include "harness/core/fields.h"

#include "harness/core/text.h"

namespace lockstep {
namespace fields {

void refuse(const std::string& at, const Json& found, const std::string& expected) {
  throw FieldError(at + ": expected " + expected + ", found " + found.dump());
}

void refuse_unknown(const std::string& at, const std::string& name,
                    const std::vector<std::string>& known) {
  throw UnknownField(at + ": unknown field '" + name + "'" + did_you_mean(name, known) +
                     "; known: " + joined(known, ", "));
}

void check(int64_t value, const Allowed& allowed, const std::string& at) {
  if (value < allowed.least)
    throw FieldError(at + ": " + std::to_string(value) + " is too small; the least is " +
                     std::to_string(allowed.least));
  if (value > allowed.most)
    throw FieldError(at + ": " + std::to_string(value) + " is too large; the most is " +
                     std::to_string(allowed.most));
}

void check(const std::string& value, const Allowed& allowed, const std::string& at) {
  if (allowed.choices.empty()) return;
  const auto choices = split(allowed.choices, '|');
  for (const auto& choice : choices)
    if (choice == value) return;
  throw FieldError(at + ": unknown value '" + value + "'" + did_you_mean(value, choices) +
                   "; known: " + joined(choices, ", "));
}

void check_length(const Json& list, const Allowed& allowed, const std::string& at) {
  if (list.size() > allowed.longest)
    throw FieldError(at + ": a list of " + std::to_string(list.size()) +
                     " is too long; the longest has " + std::to_string(allowed.longest));
}

}  // namespace fields

namespace {

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
      throw FieldError(so_far + "." + step + ": no such element; the list is " + found->dump());
    found = &(*found)[static_cast<size_t>(*index)];
  }
  return *found;
}

}  // namespace

Json with_value(Json json, std::string_view path, const std::string& text) {
  Json* found = &json;
  std::string so_far = "case";
  for (const auto& step : split(path, '.')) {
    found = &step_into(*found, step, so_far);
    so_far += "." + step;
  }
  auto value = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  *found = value.is_discarded() ? Json(text) : std::move(value);
  return json;
}

}  // namespace lockstep
