#include "demos/make.h"

#include "harness/base/text.h"

#include <algorithm>

namespace lockstep::demos {

namespace {

void require(const std::string& what, const std::string& name,
             const std::vector<std::string>& known) {
  if (std::find(known.begin(), known.end(), name) == known.end())
    throw FieldError(what + " '" + name + "'" + did_you_mean(name, known) +
                     "; known: " + joined(known, ", "));
}

}  // namespace

void require_setting(const std::string& demo, const std::vector<DemoSetting>& settings,
                     const std::string& name) {
  std::vector<std::string> known;
  for (const auto& setting : settings) known.push_back(setting.leaf.path);
  require(demo + ": unknown setting", name, known);
}

void require_mistake(const std::string& demo, const std::vector<DemoMistake>& mistakes,
                     const std::string& name) {
  std::vector<std::string> known;
  for (const auto& mistake : mistakes) known.push_back(mistake.name);
  require(demo + ": unknown mistake", name, known);
}

std::string text_of(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

reports::Label reference_label() {
  return {"one process", reports::kReference};
}

std::string spaced(const std::vector<int64_t>& values) {
  std::vector<std::string> texts;
  for (const auto value : values) texts.push_back(std::to_string(value));
  return joined(texts, " ");
}

std::string spaced(const std::vector<double>& values) {
  std::vector<std::string> texts;
  for (const auto value : values) texts.push_back(reports::number_text(value));
  return joined(texts, " ");
}

std::string why_no_rank(const std::string& name, int rank, int world) {
  return rank < world ? ""
                      : name + " " + std::to_string(rank) + " is no rank of a world of " +
                            std::to_string(world);
}

std::string who(const std::vector<int>& ranks, int world) {
  if (static_cast<int>(ranks.size()) == world) return "all " + std::to_string(world) + " ranks";
  if (ranks.size() == 1) return "rank " + std::to_string(ranks.front()) + " alone";
  return std::to_string(ranks.size()) + " of " + std::to_string(world) + " ranks";
}

}  // namespace lockstep::demos
