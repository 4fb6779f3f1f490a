#include "harness/base/case.h"

#include "harness/base/characters.h"
#include "harness/base/parse_json.h"
#include "harness/base/read_file.h"
#include "harness/base/text.h"

namespace lockstep {

namespace {

constexpr int kCaseFileVersion = 1;
constexpr size_t kColumns = 100;

// A value that begins in this column is one line if that fits; else each of its parts begins one.
std::string in_few_lines(const Json& json, size_t indent, size_t column) {
  if (json.is_primitive() || json.empty()) return json.dump();
  std::vector<std::string> parts;
  for (const auto& [name, part] : json.items()) {
    const std::string key = json.is_object() ? Json(name).dump() + ": " : "";
    parts.push_back(key + in_few_lines(part, indent + 2, indent + 2 + key.size()));
  }
  const std::string open = json.is_object() ? "{" : "[", close = json.is_object() ? "}" : "]";
  const std::string line = open + joined(parts, ", ") + close;
  if (column > 0 && column + line.size() < kColumns && line.find('\n') == std::string::npos)
    return line;
  const std::string begin = "\n" + std::string(indent + 2, ' ');
  return open + begin + joined(parts, "," + begin) + "\n" + std::string(indent, ' ') + close;
}

}  // namespace

WorldSpec world_of(const Case& c) {
  return from_json<WorldSpec>(c.value.value("world", Json::object()), "case.world");
}

int world_size(const Case& c) {
  const auto size = c.value.value(Json::json_pointer("/world/size"), Json());
  const bool is_plain =
      size.is_number_integer() && size.get<int64_t>() >= 1 && size.get<int64_t>() <= kWorldMost;
  return is_plain ? size.get<int>() : world_of(c).size;  // throws the error, if any
}

std::string hash_of(const Case& c) {
  return hash_of(c.scenario + "\n" + c.value.dump());
}

std::string case_file(const SavedCase& saved) {
  Json file;
  file["lockstep_case"] = kCaseFileVersion;
  file["scenario"] = saved.c.scenario;
  file["value"] = saved.c.value;
  if (const auto& origin = saved.origin)
    file["shrunk"] = {
        {"drawn", origin->drawn}, {"steps", origin->steps}, {"smallest", origin->smallest}};
  return in_few_lines(file, 0, 0) + "\n";
}

namespace {

Origin origin_of(const Json& json, const std::string& path) {
  const std::string at = path + ": shrunk";
  if (!json.is_object()) throw FieldError(at + ": must be an object");
  for (const auto& [name, part] : json.items())
    if (name != "drawn" && name != "steps" && name != "smallest")
      fields::refuse_unknown(at, name, {"drawn", "steps", "smallest"});
  if (!json.contains("drawn") || !json["drawn"].is_object())
    throw FieldError(at + ".drawn: must be an object");
  Origin origin{.drawn = json["drawn"]};
  fields::read(json.value("steps", Json(0)), origin.steps, at_least(0), at + ".steps",
               Reading::any_part);
  fields::read(json.value("smallest", Json(false)), origin.smallest, {}, at + ".smallest",
               Reading::any_part);
  return origin;
}

}  // namespace

SavedCase parse_case_file(const std::string& text, const std::string& path) {
  const Json file = parse_json(text, path);
  if (!file.is_object() || !file.contains("lockstep_case"))
    throw FieldError(path +
                     ": not a Lockstep case file; expected an object with \"lockstep_case\"");
  if (file["lockstep_case"] != kCaseFileVersion)
    throw OtherVersion(path + ": case file version " + excerpt(file["lockstep_case"].dump()) +
                       "; this program reads version " + std::to_string(kCaseFileVersion));
  for (const auto& [name, part] : file.items())
    if (name != "lockstep_case" && name != "scenario" && name != "value" && name != "shrunk")
      fields::refuse_unknown(path, name, {"lockstep_case", "scenario", "value", "shrunk"});
  if (!file.contains("scenario") || !file["scenario"].is_string())
    throw FieldError(path + ": \"scenario\" must name a scenario");
  if (!file.contains("value") || !file["value"].is_object())
    throw FieldError(path + ": \"value\" must be an object");
  SavedCase saved{.c = {file["scenario"].get<std::string>(), file["value"]}};
  if (file.contains("shrunk")) saved.origin = origin_of(file["shrunk"], path);
  return saved;
}

SavedCase read_case_file(const std::filesystem::path& path) {
  const auto text = read_file(path);
  const auto name = one_line(path.string());
  if (text.empty()) throw FieldError(name + ": is empty; expected a Lockstep case file");
  return parse_case_file(text, name);
}

}  // namespace lockstep
