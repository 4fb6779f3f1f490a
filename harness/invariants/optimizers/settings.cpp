#include "harness/invariants/optimizers/settings.h"

#include "harness/base/characters.h"
#include "harness/base/text.h"

namespace lockstep::recorded {

std::map<std::string, std::string> settings_of(const Fact& optimizer) {
  std::map<std::string, std::string> settings{{"the kind", optimizer.text("kind")}};
  const auto groups = optimizer.values.find("groups");
  if (groups == optimizer.values.end() || !groups->is_array()) return settings;
  for (size_t number = 0; number < groups->size(); ++number)
    if ((*groups)[number].is_object())
      for (const auto& [name, value] : (*groups)[number].items())
        settings[one_line(name) + " of group " + std::to_string(number)] = excerpt(value.dump());
  return settings;
}

std::string other_setting(const Fact& a, const Fact& b, const std::string& here,
                          const std::string& there) {
  const auto others = settings_of(b);
  for (const auto& [name, text] : settings_of(a)) {
    const auto found = others.find(name);
    if (found != others.end() && found->second != text)
      return name + " of " + a.name + ": " + here + " " + text + ", " + there + " " + found->second;
  }
  return "";
}

std::map<std::string, std::vector<Update>> updates_by_optimizer(const Rank& rank) {
  std::map<std::string, std::vector<Update>> updates;
  for (const auto& record : rank.records)
    if (const auto* fact = optimizer_in(record))
      updates[fact->name].push_back({record.at.step, fact});
  return updates;
}

std::vector<std::pair<std::string, std::string>> owned_in(const Fact& optimizer) {
  return names_in(optimizer, "owned");
}

std::vector<std::pair<std::string, std::string>> names_in(const Fact& optimizer,
                                                          const char* field) {
  std::vector<std::pair<std::string, std::string>> owned;
  const auto found = optimizer.values.find(field);
  if (found == optimizer.values.end() || !found->is_array()) return owned;
  for (const auto& pair : *found)
    if (pair.is_array() && pair.size() == 2 && pair[0].is_string() && pair[1].is_string())
      owned.emplace_back(one_line(pair[0].get<std::string>()),
                         one_line(pair[1].get<std::string>()));
  return owned;
}

}  // namespace lockstep::recorded
