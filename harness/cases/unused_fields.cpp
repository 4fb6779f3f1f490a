#include "harness/cases/scenario.h"

#include <algorithm>

namespace lockstep {

namespace {

Json::json_pointer pointer_to(const std::string& field) {
  auto path = "/" + field;
  std::replace(path.begin(), path.end(), '.', '/');
  return Json::json_pointer(path);
}

}  // namespace

bool is_among(const std::vector<std::string>& fields, std::string_view path) {
  return std::any_of(fields.begin(), fields.end(), [&](const std::string& field) {
    return path.starts_with(field) &&
           (path.size() == field.size() || path[field.size()] == '.' || path[field.size()] == '[');
  });
}

Json with_defaults(const std::vector<std::string>& unused, Json value, const Json& defaults) {
  for (const auto& field : unused) value[pointer_to(field)] = defaults.at(pointer_to(field));
  return value;
}

void require_defaults(const std::vector<std::string>& unused, const Json& value,
                      const Json& defaults, const std::string& scenario) {
  for (const auto& field : unused) {
    const auto& expected = defaults.at(pointer_to(field));
    if (const auto& found = value.at(pointer_to(field)); found != expected)
      throw FieldError("case." + field + ": " + found.dump() + ", but " + scenario +
                       " does not use it; leave it out, or at its default, " + expected.dump());
  }
}

std::optional<Verdict> refusal_of(const Scenario& scenario, const Case& c) {
  const auto why = scenario.unmet_precondition(c);
  if (why.empty()) return {};
  return Verdict{Verdict::Kind::refused, {{"A case must be of its scenario", "refused", "", why}}};
}

}  // namespace lockstep
