#include "harness/cases/shown_fields.h"

#include "harness/cases/shrink.h"

namespace lockstep {

namespace {

Json with_short_lists(const Scenario& scenario, Json value) {
  for (const auto& leaf : scenario.leaves)
    if (value.contains(pointer_to(leaf)))
      value[pointer_to(leaf)] = without_defaults(scenario, leaf, value[pointer_to(leaf)]);
  return value;
}

}  // namespace

Json displayed_value(const Case& c) {
  Json value = c.value;
  if (!value.is_object() || !value.contains("world")) return value;
  auto& world = value["world"];
  const Json defaults = to_json(WorldSpec{});
  for (const char* field : {"reduction", "schedule", "timing"})
    if (world.value(field, Json()) == defaults[field]) world.erase(field);
  return value;
}

Json displayed_value(const Scenario& scenario, const Case& c) {
  return with_short_lists(scenario, displayed_value(c));
}

Json fields_that_differ(const Json& value, const Json& defaults) {
  Json out = Json::object();
  for (const auto& [name, part] : value.items()) {
    const Json other = defaults.value(name, Json());
    if (part == other) continue;
    out[name] = part.is_object() && other.is_object() ? fields_that_differ(part, other) : part;
  }
  return out;
}

Json unlike_default(const Scenario& scenario, const Json& value) {
  return with_short_lists(scenario,
                          fields_that_differ(value, scenario.parse(Json::object()).value));
}

std::string case_file(const Scenario& scenario, const SavedCase& saved) {
  SavedCase written = saved;
  written.c.value = unlike_default(scenario, saved.c.value);
  if (written.origin) written.origin->drawn = unlike_default(scenario, saved.origin->drawn);
  return case_file(written);
}

SavedCase written_out(const Scenario& scenario, const SavedCase& saved) {
  SavedCase whole{scenario.parse(saved.c.value), saved.origin};
  try {
    if (whole.origin) whole.origin->drawn = scenario.parse(saved.origin->drawn).value;
  } catch (const FieldError&) {
    whole.origin->drawn = saved.origin->drawn;
  }
  return whole;
}

Json without_defaults(const Scenario& scenario, const Leaf& leaf, Json value) {
  if (!value.is_array() || value.empty() || !value.front().is_object()) return value;
  Json one;
  one[pointer_to(leaf)] = Json::array({Json::object()});
  const auto defaults = scenario.parse(one).value[pointer_to(leaf)][0];
  const auto& first = defaults.items().begin().key();
  for (auto& each : value) {
    Json kept{{first, each.value(first, Json())}};
    kept.update(fields_that_differ(each, defaults));
    each = std::move(kept);
  }
  return value;
}

}  // namespace lockstep
