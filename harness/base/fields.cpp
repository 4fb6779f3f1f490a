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

bool is_choice(std::string_view value, const Allowed& allowed) {
  return allowed.choices.empty() ||
         std::ranges::find(allowed.choices, value) != allowed.choices.end();
}

namespace {

using Kind = Type::Kind;

void check_range(const Json& number, bool is_small, bool is_large, const Allowed& allowed,
                 const std::string& at) {
  const auto found = at + ": " + number.dump();
  if (is_small)
    throw FieldError(found + " is too small; the least is " + std::to_string(allowed.least));
  if (is_large)
    throw FieldError(found + " is too large; the most is " + std::to_string(allowed.most));
}

void check_whole(const Json& json, const Allowed& allowed, const std::string& at) {
  if (!json.is_number_integer()) refuse(at, json, "a whole number");
  const auto value = json.get<int64_t>();
  if (json.is_number_unsigned() && value < 0) refuse(at, json, "a number below 2^63");
  check_range(json, value<allowed.least, value> allowed.most, allowed, at);
}

void check_real(const Json& json, const Allowed& allowed, const std::string& at) {
  if (!json.is_number()) refuse(at, json, "a number");
  const auto value = json.get<double>();
  const bool has_least = allowed.least != Allowed().least,
             has_most = allowed.most != Allowed().most;
  check_range(json, has_least && value < static_cast<double>(allowed.least),
              has_most && value > static_cast<double>(allowed.most), allowed, at);
}

void check_text(const std::string& value, const Allowed& allowed, const std::string& at) {
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

// A name is quoted in errors and reports.
void check_name(const std::string& name, const std::string& at) {
  constexpr size_t kBytesMost = 200;
  if (name.empty() || name.size() > kBytesMost || !is_one_line(name))
    throw FieldError(at + ": " + excerpt(Json(name).dump(-1, ' ', true)) +
                     " is no name: one line of 1 to " + std::to_string(kBytesMost) + " bytes");
}

void* part_of(void* value, std::ptrdiff_t at) {
  return static_cast<char*>(value) + at;
}
const void* part_of(const void* value, std::ptrdiff_t at) {
  return static_cast<const char*>(value) + at;
}

std::vector<std::string> names_of(const Type& type) {
  std::vector<std::string> names;
  for (const auto& member : type.members) names.emplace_back(member.name);
  return names;
}

void read_object(const Type& type, const Json& json, void* value, const std::string& at,
                 Reading reading) {
  if (!json.is_object()) refuse(at, json, "an object with " + joined(names_of(type), ", "));
  for (const auto& item : json.items()) {
    if (reading == Reading::whole_and_more) break;
    const auto is_it = [&](const Member& member) { return item.key() == member.name; };
    if (std::none_of(type.members.begin(), type.members.end(), is_it))
      refuse_unknown(at, item.key(), names_of(type));
  }
  for (const auto& member : type.members) {
    const auto path = at + "." + member.name;
    const auto found = json.find(member.name);
    const bool is_optional = member.type->kind == Kind::optional;
    const Type& part_type = is_optional ? *member.type->part : *member.type;
    void* const part = part_of(value, member.at);
    if (found != json.end())
      read(part_type, *found, is_optional ? member.type->add(part, "") : part, member.allowed, path,
           reading);
    else if (reading != Reading::any_part && !is_optional && !member.unless_default)
      throw FieldError(at + ": has no '" + member.name + "'");
  }
  const auto why = type.finish ? type.finish(value) : "";
  if (!why.empty()) throw FieldError(at + ": " + why);
}

void read_list(const Type& type, const Json& json, void* value, const Allowed& allowed,
               const std::string& at, Reading reading) {
  if (!json.is_array()) refuse(at, json, "a list");
  check_length(json, allowed, at);
  type.clear(value);
  for (size_t i = 0; i < json.size(); ++i)
    read(*type.part, json[i], type.add(value, ""), allowed, at + "[" + std::to_string(i) + "]",
         reading);
}

void read_map(const Type& type, const Json& json, void* value, const Allowed& allowed,
              const std::string& at, Reading reading) {
  if (!json.is_object()) refuse(at, json, "an object");
  check_length(json, allowed, at);
  type.clear(value);
  for (const auto& item : json.items()) {
    check_name(item.key(), at);
    read(*type.part, item.value(), type.add(value, item.key()), allowed, at + "." + item.key(),
         reading);
  }
}

void check_plain(Kind kind, const Json& json, const Allowed& allowed, const std::string& at) {
  if (kind == Kind::whole) return check_whole(json, allowed, at);
  if (kind == Kind::truth && !json.is_boolean()) refuse(at, json, "true or false");
  if (kind == Kind::real) return check_real(json, allowed, at);
  if (kind == Kind::seed && !json.is_number_unsigned())
    refuse(at, json, "a whole number of at least 0");
  if (kind != Kind::text && kind != Kind::word) return;
  if (!json.is_string()) refuse(at, json, "a string");
  check_text(json.get_ref<const std::string&>(), allowed, at);
}

}  // namespace

Json written(const Type& type, const void* value) {
  if (type.get) return type.get(value);
  Json json = type.kind == Kind::list ? Json::array() : Json::object();
  for (const auto& member : type.members) {
    auto part = written(*member.type, part_of(value, member.at));
    const bool is_empty = part.is_null() && member.type->kind == Kind::optional;
    if (is_empty || (member.unless_default && part == member.type->smallest())) continue;
    json[member.name] = std::move(part);
  }
  for (const auto& one : type.derived)
    if (auto part = one.value(part_of(value, one.at)); !part.is_null())
      json[one.name] = std::move(part);
  if (type.kind == Kind::optional) json = Json();
  if (type.each)
    type.each(value, [&](const std::string& name, const void* part) {
      if (type.kind == Kind::list)
        json.push_back(written(*type.part, part));
      else if (type.kind == Kind::map)
        json[name] = written(*type.part, part);
      else
        json = written(*type.part, part);
    });
  return json;
}

void read(const Type& type, const Json& json, void* value, const Allowed& allowed,
          const std::string& at, Reading reading) {
  switch (type.kind) {
    case Kind::object:
      return read_object(type, json, value, at, reading);
    case Kind::list:
      return read_list(type, json, value, allowed, at, reading);
    case Kind::map:
      return read_map(type, json, value, allowed, at, reading);
    case Kind::other:
      return type.take(value, json, allowed, at, reading);
    case Kind::optional:
      if (json.is_null()) return type.clear(value);
      return read(*type.part, json, type.add(value, ""), allowed, at, reading);
    default:
      check_plain(type.kind, json, allowed, at);
      if (!type.set(value, json)) refuse(at, json, "a number that fits its field");
  }
}

std::string unmet(const Type& type, const void* value) {
  std::string why = type.unmet ? type.unmet(value) : "";
  for (const auto& member : type.members)
    if (why.empty()) why = unmet(*member.type, part_of(value, member.at));
  if (type.each)
    type.each(value, [&](const std::string&, const void* part) {
      if (why.empty()) why = unmet(*type.part, part);
    });
  return why;
}

Cost cost_within(Cost outer, Cost inner) {
  return outer == Cost::shape ? inner : outer;
}

namespace {

void add_leaves(const Type& type, const std::string& path, const Allowed& allowed, Cost cost,
                std::vector<Leaf>& leaves) {
  static const std::map<Kind, Leaf::Type> kTypes = {
      {Kind::whole, Leaf::Type::whole}, {Kind::seed, Leaf::Type::seed},
      {Kind::real, Leaf::Type::real},   {Kind::truth, Leaf::Type::truth},
      {Kind::text, Leaf::Type::word},   {Kind::word, Leaf::Type::word},
      {Kind::list, Leaf::Type::list}};
  if (type.kind != Kind::object)
    return leaves.push_back({path, kTypes.at(type.kind), allowed, cost});
  for (const auto& member : type.members)
    add_leaves(*member.type, (path.empty() ? "" : path + ".") + member.name, member.allowed,
               cost_within(cost, member.cost), leaves);
}

}  // namespace

std::vector<Leaf> leaves_of(const Type& type) {
  std::vector<Leaf> leaves;
  add_leaves(type, "", Allowed{}, Cost::shape, leaves);
  return leaves;
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
