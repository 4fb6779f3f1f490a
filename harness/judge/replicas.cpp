// Whether the replicas stay the same: parameters, optimizers, buffers.
#include "harness/core/text.h"
#include "harness/judge/rows.h"

#include <algorithm>
#include <map>
#include <set>

namespace lockstep::recorded {

namespace {

// A fact of the same name at the same moment on the ranks; null where a rank has none.
struct FactRow {
  Moment at;
  std::string name;
  std::vector<const Fact*> by_rank;
};

std::vector<FactRow> optimizer_rows(const RecordedRun& run) {
  std::map<std::pair<Moment, std::string>, size_t> known;
  std::vector<FactRow> rows;
  for (size_t rank = 0; rank < run.ranks.size(); ++rank)
    for (const auto& record : run.ranks[rank].records) {
      const auto* fact = std::get_if<Fact>(&record.what);
      if (!fact || !fact->name.starts_with("optimizer ")) continue;
      const auto [found, is_new] = known.try_emplace({record.at, fact->name}, rows.size());
      if (is_new)
        rows.push_back(
            {record.at, fact->name, std::vector<const Fact*>(run.ranks.size(), nullptr)});
      rows[found->second].by_rank[rank] = fact;
    }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.at.step < b.at.step; });
  return rows;
}

// The fields of an optimizer's groups as "lr of group 0" -> text.
std::map<std::string, std::string> settings_of(const Fact& fact) {
  std::map<std::string, std::string> settings{{"the kind", fact.text("kind")}};
  const auto groups = fact.values.find("groups");
  if (groups == fact.values.end() || !groups->is_array()) return settings;
  for (size_t number = 0; number < groups->size(); ++number)
    if ((*groups)[number].is_object())
      for (const auto& [name, value] : (*groups)[number].items())
        settings[one_line(name) + " of group " + std::to_string(number)] = excerpt(value.dump());
  return settings;
}

std::optional<Finding> other_settings(const FactRow& row) {
  std::map<std::string, std::vector<std::string>> by_name;
  for (size_t rank = 0; rank < row.by_rank.size(); ++rank) {
    if (!row.by_rank[rank]) return {};
    for (const auto& [name, text] : settings_of(*row.by_rank[rank])) {
      auto& texts = by_name[name];
      texts.resize(row.by_rank.size(), "none");
      texts[rank] = text;
    }
  }
  for (const auto& [name, texts] : by_name)
    if (!all_alike(texts))
      return Finding{"", agreement_pattern(texts), "step " + std::to_string(row.at.step),
                     name + " of " + row.name + ": " + values_text(texts)};
  return {};
}

std::optional<Finding> first_other_settings(const RecordedRun& run) {
  for (const auto& row : optimizer_rows(run))
    if (auto finding = other_settings(row)) return finding;
  return {};
}

Judgement all_the_same(const RecordedRun& run, std::string_view role, const std::string& of) {
  const auto rows = rows_of(run, role);
  if (run.ranks.size() == 1) return {.why_not = "one rank alone"};
  if (rows.empty()) return {.why_not = "no rank recorded " + std::string(role)};
  Judgement judgement;
  size_t compared = 0;
  for (const auto& row : rows) {
    compared += row.is_whole() ? 1 : 0;
    if (auto finding = difference_in(row, of + " of " + row.of)) {
      judgement.findings.push_back(std::move(*finding));
      break;
    }
  }
  judgement.compared = counted(compared, "time");
  return judgement;
}

// A rank that came to the row's moment would have recorded parameters that changed there.
bool came_to(const Rank& rank, const Moment& at) {
  return rank.history.last.step > at.step;
}

// The ranks on which a model's parameters changed between two updates, where the others' did not.
std::optional<Finding> changed_by_hand(const Row& row, const RecordedRun& run) {
  std::vector<std::string> texts;
  for (size_t rank = 0; rank < row.by_rank.size(); ++rank)
    if (!row.by_rank[rank] && !came_to(run.ranks[rank], row.at)) return {};
  for (const auto* digests : row.by_rank)
    texts.push_back(digests ? "other values than it had" : "the values that it had");
  return Finding{"", "changed_on_some_ranks", place_of(row),
                 "parameters of " + row.of +
                     " changed outside an update on some ranks alone: " + values_text(texts)};
}

}  // namespace

Judgement parameters_are_the_same(const RecordedRun& run) {
  Judgement judgement;
  if (run.ranks.size() == 1) return {.why_not = "one rank alone"};
  const auto rows = rows_of(run, "parameters");
  if (rows.empty()) return {.why_not = "no model was wrapped"};
  size_t compared = 0;
  for (const auto& row : rows) {
    compared += row.is_whole() ? 1 : 0;
    const bool is_change = row.at.phase == "forward";
    auto finding = is_change && !row.is_whole() ? changed_by_hand(row, run)
                                                : difference_in(row, "parameters of " + row.of);
    if (!finding) continue;
    if (const auto settings = first_other_settings(run); settings && !is_change)
      finding->text += "\ncause: " + settings->text;
    judgement.findings.push_back(std::move(*finding));
    break;
  }
  judgement.compared = counted(compared, "time");
  return judgement;
}

Judgement hyper_parameters_are_the_same(const RecordedRun& run) {
  if (run.ranks.size() == 1) return {.why_not = "one rank alone"};
  const auto rows = optimizer_rows(run);
  if (rows.empty()) return {.why_not = "no optimizer made a step"};
  Judgement judgement{.compared = counted(rows.size(), "update")};
  if (auto finding = first_other_settings(run)) judgement.findings.push_back(std::move(*finding));
  return judgement;
}

Judgement optimizer_state_is_the_same(const RecordedRun& run) {
  return all_the_same(run, "state", "state");
}

Judgement optimizers_own_parameters_once(const RecordedRun& run) {
  std::map<std::string, std::set<std::string>> owners;  // of each parameter
  std::set<std::string> strangers;  // optimizers that hold no model's parameters
  std::set<std::string> trained;    // parameters of all models
  for (const auto& rank : run.ranks)
    for (const auto& record : rank.records) {
      if (const auto* digests = std::get_if<Digests>(&record.what);
          digests && digests->list->role == "parameters")
        for (const auto& tensor : digests->list->tensors)
          trained.insert(digests->list->of + " " + tensor.name);
      const auto* fact = std::get_if<Fact>(&record.what);
      if (!fact || !fact->name.starts_with("optimizer ")) continue;
      const auto owned = owned_in(*fact);
      if (owned.empty() && fact->whole("foreign").value_or(0) > 0) strangers.insert(fact->name);
      for (const auto& [model, name] : owned) owners[model + " " + name].insert(fact->name);
    }
  if (trained.empty()) return {.why_not = "no model was wrapped"};
  Judgement judgement{.compared = counted(trained.size(), "parameter")};
  for (const auto& [parameter, names] : owners)
    if (names.size() > 1) {
      judgement.findings.push_back(
          {"", "two_optimizers", parameter,
           parameter + " belongs to " +
               joined(std::vector<std::string>(names.begin(), names.end()), " and ") +
               ": each updates it"});
      return judgement;
    }
  for (const auto& parameter : trained)
    if (!owners.contains(parameter) && !strangers.empty()) {
      judgement.findings.push_back(
          {"", "steps_other_tensors", parameter,
           parameter + " belongs to no optimizer, and " + *strangers.begin() +
               " holds tensors of no wrapped model: was it made before the model was moved or "
               "converted?"});
      return judgement;
    }
  return judgement;
}

Judgement buffers_follow_rank_zero(const RecordedRun& run) {
  auto judgement = all_the_same(run, "buffers", "buffers");
  if (!judgement.why_not.empty() && run.ranks.size() > 1)
    judgement.why_not = "no forward broadcast buffers";
  return judgement;
}

}  // namespace lockstep::recorded
