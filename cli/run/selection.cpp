#include "cli/run/selection.h"

#include "cli/run/tag_expression.h"
#include "cli/usage.h"
#include "harness/base/text.h"

#include <algorithm>
#include <fnmatch.h>
#include <set>

namespace lockstep::cli {

namespace {

bool matches(const std::string& name, const std::string& pattern) {
  if (pattern.find_first_of("*?[") == std::string::npos) return name.starts_with(pattern);
  return ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

bool any_matches(const Scenario& scenario, const std::vector<std::string>& patterns) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const auto& pattern) {
    return matches(scenario.name, pattern) || is_named(scenario, pattern);
  });
}

using Expressions = std::vector<TagExpression>;

bool any_holds(const Scenario& scenario, const Expressions& expressions) {
  return std::any_of(expressions.begin(), expressions.end(), [&](const auto& expression) {
    return expression.holds([&](const std::string& tag) { return has_tag(scenario, tag); });
  });
}

Expressions expressions_of(const std::string& flag, const std::vector<std::string>& texts) {
  Expressions expressions;
  for (const auto& text : texts) expressions.emplace_back(flag, text);
  return expressions;
}

std::vector<std::string> names_of(const std::vector<Scenario>& all) {
  std::vector<std::string> names;
  for (const auto& scenario : all)
    if (!has_tag(scenario, "canary")) names.push_back(scenario.name);
  return names;
}

// A pattern may be the beginning of a name, so it is also compared with the beginnings of names.
std::string near_patterns(const std::string& pattern, const std::vector<std::string>& names) {
  const auto near = did_you_mean(pattern, names);
  if (!near.empty()) return near;
  std::vector<std::string> begins;
  for (const auto& name : names)
    if (!near_names(pattern, {name.substr(0, pattern.size())}).empty()) begins.push_back(name);
  return begins.empty() ? "" : " (did you mean '" + joined(begins, "' or '") + "'?)";
}

void refuse_unknown_patterns(const std::vector<Scenario>& all,
                             const std::vector<std::string>& patterns) {
  const auto names = names_of(all);
  for (const auto& pattern : patterns)
    if (std::none_of(names.begin(), names.end(),
                     [&](const auto& name) { return matches(name, pattern); }) &&
        std::none_of(all.begin(), all.end(),
                     [&](const auto& scenario) { return is_named(scenario, pattern); }))
      throw NothingSelected("no scenario is named '" + excerpt(pattern) + "'" +
                            near_patterns(pattern, names) + "; 'list' shows all " +
                            std::to_string(names.size()));
}

void refuse_unknown_tags(const std::vector<Scenario>& all, const Expressions& expressions) {
  std::set<std::string> known;
  for (const auto& scenario : all) known.insert(scenario.tags.begin(), scenario.tags.end());
  known.erase("canary");
  const std::vector<std::string> names(known.begin(), known.end());
  for (const auto& expression : expressions)
    for (const auto& tag : expression.tags())
      if (!known.contains(tag))
        throw NothingSelected("no scenario has the tag '" + excerpt(tag) + "'" +
                              did_you_mean(tag, names) + "; known: " + joined(names, ", "));
}

}  // namespace

bool has_tag(const Scenario& scenario, const std::string& tag) {
  return std::find(scenario.tags.begin(), scenario.tags.end(), tag) != scenario.tags.end();
}

std::vector<Scenario> selected(const std::vector<Scenario>& all, const Selection& selection) {
  refuse_unknown_patterns(all, selection.patterns);
  refuse_unknown_patterns(all, selection.excluded);
  const auto tags = expressions_of("--tag", selection.tags);
  const auto not_tags = expressions_of("--not-tag", selection.not_tags);
  refuse_unknown_tags(all, tags);
  refuse_unknown_tags(all, not_tags);
  std::vector<Scenario> out;
  for (const auto& scenario : all)
    if (!has_tag(scenario, "canary") &&
        (selection.patterns.empty() || any_matches(scenario, selection.patterns)) &&
        !any_matches(scenario, selection.excluded) && (tags.empty() || any_holds(scenario, tags)) &&
        !any_holds(scenario, not_tags))
      out.push_back(scenario);
  if (out.empty()) throw NothingSelected("no scenario is left after these names and tags");
  return out;
}

const Scenario& scenario_named(const std::vector<Scenario>& all, const std::string& name) {
  std::vector<const Scenario*> found;
  for (const auto& scenario : all) {
    if (is_named(scenario, name)) return scenario;
    if (scenario.name.starts_with(name)) found.push_back(&scenario);
  }
  if (found.size() == 1) return *found.front();
  if (found.empty())
    throw NothingSelected("no scenario is named '" + excerpt(name) + "'" +
                          near_patterns(name, names_of(all)));
  std::vector<std::string> names;
  for (const auto* scenario : found) names.push_back(scenario->name);
  throw NothingSelected("'" + name + "' begins several names: " + joined(names, ", "));
}

}  // namespace lockstep::cli
