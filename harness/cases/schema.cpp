#include "harness/cases/schema.h"

#include <algorithm>

namespace lockstep {

namespace {

const char* type_of(Leaf::Type type) {
  switch (type) {
    case Leaf::Type::whole:
    case Leaf::Type::seed:
      return "integer";
    case Leaf::Type::real:
      return "number";
    case Leaf::Type::truth:
      return "boolean";
    case Leaf::Type::word:
      return "string";
    case Leaf::Type::list:
      return "array";
  }
  return "object";
}

// The limits on a single value as a schema; nothing where there are none.
Json within(const Allowed& allowed) {
  Json schema = Json::object();
  if (!allowed.choices.empty()) {
    schema["type"] = "string";
    schema["enum"] = allowed.choices;
  }
  if (allowed.least != Allowed().least) schema["minimum"] = allowed.least;
  if (allowed.most != Allowed().most) schema["maximum"] = allowed.most;
  return schema;
}

Json schema_of(const Leaf& leaf) {
  if (leaf.type == Leaf::Type::list) {
    Json schema{{"type", "array"}, {"items", within(leaf.allowed)}};
    if (leaf.allowed.longest != Allowed().longest) schema["maxItems"] = leaf.allowed.longest;
    return schema;
  }
  Json schema = within(leaf.allowed);
  schema["type"] = type_of(leaf.type);
  if (leaf.type == Leaf::Type::seed) schema["minimum"] = 0;
  return schema;
}

Json object_of(Json properties) {
  return {
      {"type", "object"}, {"additionalProperties", false}, {"properties", std::move(properties)}};
}

// The properties of an object, from the leaves whose paths begin with `at`.
Json properties_of(const std::vector<Leaf>& leaves, const Json& defaults, const std::string& at) {
  Json properties = Json::object();
  for (const auto& [name, value] : defaults.items()) {
    const auto path = at + name;
    if (value.is_object()) {
      properties[name] = object_of(properties_of(leaves, value, path + "."));
      continue;
    }
    const auto leaf = std::find_if(leaves.begin(), leaves.end(),
                                   [&](const Leaf& each) { return each.path == path; });
    properties[name] = leaf == leaves.end() ? Json{{"const", value}} : schema_of(*leaf);
    properties[name]["default"] = value;
  }
  return properties;
}

}  // namespace

Json schema_of_case_file(const Scenario& scenario) {
  const auto defaults = scenario.parse(Json::object()).value;
  const Json whole{{"type", "integer"}, {"minimum", 0}};
  Json shrunk = object_of(
      {{"drawn", {{"type", "object"}}}, {"steps", whole}, {"smallest", {{"type", "boolean"}}}});
  shrunk["required"] = {"drawn"};
  Json name{{"const", scenario.name}};
  if (!scenario.former_name.empty()) name = {{"enum", {scenario.name, scenario.former_name}}};
  Json schema{{"$schema", "https://json-schema.org/draft/2020-12/schema"},
              {"title", "a case of " + scenario.name}};
  schema.update(object_of({{"lockstep_case", {{"const", 1}}},
                           {"scenario", std::move(name)},
                           {"value", object_of(properties_of(scenario.leaves, defaults, ""))},
                           {"shrunk", std::move(shrunk)}}));
  schema["required"] = {"lockstep_case", "scenario", "value"};
  return schema;
}

}  // namespace lockstep
