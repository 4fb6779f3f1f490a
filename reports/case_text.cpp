#include "reports/case_text.h"

#include "harness/base/characters.h"
#include "harness/base/text.h"
#include "reports/fit.h"

#include <algorithm>

namespace lockstep::reports {

namespace {

constexpr size_t kLineColumns = 100;
constexpr size_t kLabelColumns = 9;    // "replay   "
constexpr size_t kPassesColumns = 40;  // a longer value, of a list of structs, helps nobody
constexpr size_t kNoteColumns = 48;    // notes stand behind the longest field up to here

struct Shown {
  std::string path, text;  // "world.size", "world 2"
};

Shown shown_field(const std::string& path, const Json& value) {
  const std::string name = path == "world.size" ? "world" : path;
  return {path,
          one_line(name + " " + (value.is_string() ? value.get<std::string>() : value.dump()))};
}

void flatten(const Json& value, const std::string& path, std::vector<Shown>& fields) {
  for (const auto& [name, part] : value.items()) {
    const std::string at = path.empty() ? name : path + "." + name;
    if (part.is_object())
      flatten(part, at, fields);
    else if (at != "world.size")
      fields.push_back(shown_field(at, part));
  }
}

// The world and the fields that are unlike a default case's.
std::vector<Shown> fields_of(const Json& value, const Json& unlike_default) {
  std::vector<Shown> fields{
      shown_field("world.size", value.value(Json::json_pointer("/world/size"), Json(1)))};
  flatten(unlike_default, "", fields);
  return fields;
}

std::vector<std::string> texts_of(const std::vector<Shown>& fields) {
  std::vector<std::string> texts;
  for (const auto& field : fields) texts.push_back(field.text);
  return texts;
}

const FieldNote* note_of(const std::string& path, const Shrunk& shrunk) {
  for (const auto& note : shrunk.notes)
    if (note.path == path) return &note;
  return nullptr;
}

std::string note_text(const FieldNote* note) {
  if (!note) return "";
  if (note->any) return "or any other value";
  const auto passes = "passes " + one_line(note->passes);
  return width(passes) > kPassesColumns ? "passes with another one" : passes;
}

// The fields of the case, then those that hold what a default case holds and matter.
std::vector<Shown> fields_that_matter(const Failure& failure) {
  auto fields = fields_of(failure.c.value, failure.unlike_default);
  for (const auto& note : failure.shrunk->notes)
    if (!note.any && std::none_of(fields.begin(), fields.end(),
                                  [&](const Shown& one) { return one.path == note.path; }))
      fields.push_back(shown_field(note.path, note.value));
  return fields;
}

std::vector<std::string> noted_fields(const Failure& failure) {
  const auto fields = fields_that_matter(failure);
  size_t columns = 0;
  for (const auto& field : fields)
    if (width(field.text) <= kNoteColumns) columns = std::max(columns, width(field.text));
  std::vector<std::string> lines;
  for (const auto& field : fields) {
    const auto note = note_text(note_of(field.path, *failure.shrunk));
    lines.push_back("    " +
                    (note.empty() ? field.text : padded(field.text, columns) + "   # " + note));
  }
  return lines;
}

// Names as one line has room for: those of one struct together, "options (4 fields)", and how many
// more there are.
std::vector<std::string> on_one_line(const std::vector<std::string>& paths) {
  std::vector<std::pair<std::string, std::vector<std::string>>> by_struct;
  for (const auto& path : paths) {
    const auto name = path.substr(0, path.find('.'));
    if (by_struct.empty() || by_struct.back().first != name) by_struct.push_back({name, {}});
    by_struct.back().second.push_back(path);
  }
  std::vector<std::string> out;
  size_t columns = 2 + kLabelColumns, left = by_struct.size();
  for (const auto& [name, fields] : by_struct) {
    const auto text =
        fields.size() == 1 ? fields.front() : name + " (" + counted(fields.size(), "field") + ")";
    constexpr size_t kRoomForRest = 14;  // "and 10 more"
    if (columns + width(text) + kRoomForRest > kLineColumns) break;
    columns += width(text) + 3;
    out.push_back(text);
    --left;
  }
  if (left > 0) out.push_back("and " + std::to_string(left) + " more");
  return out;
}

// The fields not shown so far that may hold anything.
std::vector<std::string> any_fields(const Failure& failure) {
  const auto fields = fields_that_matter(failure);
  std::vector<std::string> any;
  for (const auto& note : failure.shrunk->notes)
    if (note.any && std::none_of(fields.begin(), fields.end(),
                                 [&](const Shown& one) { return one.path == note.path; }))
      any.push_back(note.path);
  return any;
}

}  // namespace

std::vector<std::string> labelled(const std::string& label, const std::vector<std::string>& parts) {
  std::vector<std::string> lines{"  " + padded(label, kLabelColumns)};
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::string part = parts[i] + (i + 1 < parts.size() ? " ·" : "");
    const bool first = lines.back().size() == 2 + kLabelColumns;
    if (!first && width(lines.back()) + 1 + width(part) > kLineColumns) {
      lines.push_back("  " + padded("", kLabelColumns) + part);
    } else {
      lines.back() += (first ? "" : " ") + part;
    }
  }
  return lines;
}

std::string case_line(const Failure& failure) {
  return joined(texts_of(fields_of(failure.c.value, failure.unlike_default)), " · ");
}

std::string shrunk_text(const Shrunk& shrunk) {
  const bool is_smallest = shrunk.end == Shrunk::End::smallest;
  const auto steps = shrunk.steps == 0 ? is_smallest ? "no step down fails alike" : "as drawn"
                                       : counted(shrunk.steps, "step") + " down";
  return "smallest case " + std::string(is_smallest ? "" : "so far ") + "(" + steps + "; " +
         counted(shrunk.runs, "case") + " tried on " + shrunk.tier + " in " + seconds(shrunk.took) +
         " s" +
         (shrunk.smallest_runs == 0 ? ""
                                    : "; it fails " + std::to_string(shrunk.failed) + " of " +
                                          std::to_string(shrunk.smallest_runs) + " times") +
         (is_smallest                              ? ""
          : shrunk.end == Shrunk::End::interrupted ? "; interrupted: replay --shrink continues"
                                                   : "; replay --shrink continues") +
         ")";
}

std::vector<std::string> case_lines(const Failure& failure) {
  if (!failure.shrunk)
    return labelled("case", texts_of(fields_of(failure.c.value, failure.unlike_default)));
  std::vector<std::string> lines{"  " + shrunk_text(*failure.shrunk)};
  append(lines, noted_fields(failure));
  if (const auto any = any_fields(failure); !any.empty())
    append(lines, labelled("any", on_one_line(any)));
  if (failure.shrunk->drawn != failure.c.value)
    append(lines, labelled("drawn", texts_of(fields_of(failure.shrunk->drawn,
                                                       failure.shrunk->drawn_unlike_default))));
  return lines;
}

}  // namespace lockstep::reports
