#include "harness/invariants/judge_run.h"

#include "harness/base/characters.h"
#include "harness/base/read_file.h"
#include "harness/base/text.h"
#include "harness/cases/groups.h"
#include "harness/invariants/central_updates.h"
#include "harness/invariants/consequences.h"
#include "harness/invariants/habits/local_rounds.h"
#include "harness/invariants/habits/own_tensors.h"
#include "harness/invariants/habits/own_trainings.h"
#include "harness/invariants/resumed.h"
#include "harness/recorded/joins.h"
#include "harness/recorded/model_groups.h"
#include "harness/verdict/trace.h"

#include <algorithm>
#include <map>
#include <utility>

namespace lockstep::recorded {

namespace {

using Clock = std::chrono::steady_clock;

std::chrono::milliseconds since(Clock::time_point begin) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin);
}

// The setting of the program that recorded: its name, and the backend of its process group.
Setting setting_of(const RecordedRun& recorded) {
  Setting setting{.subject = "program", .tier = kRecorded, .backend = "unknown"};
  for (const auto& rank : recorded.ranks) {
    if (!rank.program.empty()) setting.subject = rank.program;
    for (const auto& record : rank.records)
      if (const auto* fact = fact_in(record, fact::kProcessGroup);
          fact && !fact->text("backend").empty())
        setting.backend = fact->text("backend");
  }
  return setting;
}

Result::Kind kind_of(const Judgement& judgement) {
  if (!judgement.why_not.empty()) return Result::Kind::skip;
  if (judgement.findings.empty()) return Result::Kind::pass;
  return judgement.is_certain ? Result::Kind::fail : Result::Kind::inconclusive;
}

Verdict::Kind verdict_of(Result::Kind kind) {
  switch (kind) {
    case Result::Kind::skip:
      return Verdict::Kind::refused;
    case Result::Kind::pass:
      return Verdict::Kind::pass;
    case Result::Kind::fail:
      return Verdict::Kind::fail;
    default:
      return Verdict::Kind::inconclusive;
  }
}

// Begins the details with the place that the diagnosis does not name.
void add_place(Finding& finding) {
  const auto where = finding.where.text();
  if (finding.diagnosis.find(where) == std::string::npos)
    finding.details.insert(finding.details.begin(), "first at: " + where);
}

bool is_allowed(const Allowances& allowances, std::string_view invariant) {
  const auto& names = allowances.invariants;
  return std::find(names.begin(), names.end(), invariant) != names.end();
}

// An allowed finding becomes a remark; in a strict judgement other remarks become findings.
void apply(const Allowances& allowances, NamedJudgement& one) {
  auto& is = one.judgement;
  if (is_allowed(allowances, one.name)) {
    is.remarks += std::exchange(is.findings, {});
    is.is_certain = true;
  } else if (allowances.is_strict && !is.remarks.empty()) {
    is.is_customary = is.findings.empty();
    is.findings += std::exchange(is.remarks, {});
    is.why_not.clear();
  }
}

// The judgement of ranks that train models of their own in groups: the first group's that has a
// finding, with the remarks of all.
Judgement judged_by_groups(const Invariant& invariant, const std::vector<GroupRun>& groups) {
  std::optional<Judgement> merged;
  Findings remarks;
  for (const auto& group : groups) {
    auto judgement = invariant.judge(group.run);
    const auto who = "among " + ranks_text(group.ranks) + ", numbered from 0: ";
    for (auto* all : {&judgement.findings, &judgement.remarks})
      for (auto& finding : *all) finding.diagnosis.insert(0, who);
    remarks += std::exchange(judgement.remarks, {});
    const bool is_first_found = merged && merged->findings.empty() && !judgement.findings.empty();
    const bool is_first_judged = merged && !merged->why_not.empty() && judgement.why_not.empty();
    if (!merged || is_first_found || is_first_judged) merged = std::move(judgement);
  }
  merged->remarks = std::move(remarks);
  return *merged;
}

// A remark that names ranks outside of the groups, which train nothing: nothing of theirs is
// compared.
Findings ranks_left_out(const std::vector<GroupRun>& groups, const RecordedRun& run) {
  const auto beside = ranks_beside(groups, static_cast<int>(run.ranks.size()));
  if (groups.empty() || beside.empty()) return {};
  return {
      {"", "trains_nothing", "the whole run",
       ranks_text(beside) + (beside.size() == 1 ? " is" : " are") +
           " outside of the groups that train, and recorded no backward and no update: nothing of "
           "theirs is compared"}};
}

// True if an invariant is about all ranks, in whatever groups they train.
bool is_about_the_world(std::string_view name, const std::vector<GroupRun>& groups) {
  const bool is_each_alone = std::all_of(groups.begin(), groups.end(),
                                         [](const auto& is) { return is.ranks.size() == 1; });
  if (is_each_alone && name == "forward.runs_through_the_wrapper") return true;
  return name == "run.is_recorded_whole" || name == "collectives.have_one_order";
}

Result result_of(NamedJudgement one, const RecordedRun& recorded, const Setting& setting) {
  auto& judgement = one.judgement;
  for (auto* all : {&judgement.findings, &judgement.remarks})
    for (auto& finding : *all) {
      finding.rule = one.rule;
      add_place(finding);
    }
  Result result{.scenario = std::string(one.name),
                .claim = std::string(one.rule),
                .exactness = judgement.compared,
                .setting = setting,
                .kind = kind_of(judgement),
                .remarks = std::move(judgement.remarks)};
  result.worst = {verdict_of(result.kind), std::move(judgement.findings)};
  const auto why_not = (judgement.is_covered ? "" : "not judged: ") + judgement.why_not;
  if (result.kind == Result::Kind::skip)
    result.worst.findings = {
        {result.claim, judgement.is_covered ? "refused" : kNotCovered, "", why_not}};
  const auto world = static_cast<int>(recorded.ranks.size());
  CaseGroup group{.verdict = result.worst.kind, .reason = why_not, .numbers = {1}};
  if (result.kind != Result::Kind::skip) {
    group.world = world;
    group.labels = {"world " + std::to_string(world)};
  }
  result.groups = {std::move(group)};
  count_groups(result);
  return result;
}

std::optional<View> with_joins(const RecordedRun& run) {
  auto aligned = with_joins_aligned(run);
  return aligned ? std::optional(View{std::move(*aligned)}) : std::nullopt;
}

// Each sees what those before it left. Its remarks are those of the invariant.
struct Viewed {
  std::string_view invariant;
  std::optional<View> (*view)(const RecordedRun& run);
};
constexpr Viewed kViews[] = {
    {"parameters.are_the_same", without_own_trainings},
    {"run.has_one_length", with_joins},
    {"run.has_one_length", with_rounds_aligned},
    {"run.has_one_length", with_central_updates_aligned},
    {"parameters.are_the_same", without_own_tensors},
};

}  // namespace

Run judged(const RecordedRun& as_recorded, const OneProcess* one, const Allowances& allowances,
           const RecordedRun* before) {
  const auto begin = Clock::now();
  std::optional<RecordedRun> compared;
  std::map<std::string_view, Findings> remarks;
  for (const auto& each : kViews)
    if (auto view = each.view(compared ? *compared : as_recorded)) {
      compared = std::move(view->run);
      remarks[each.invariant] += std::move(view->remarks);
    }
  const auto& recorded = compared ? *compared : as_recorded;
  Run run;
  const auto setting = setting_of(recorded);
  run.settings = {setting};
  run.libtorch = recorded.ranks.front().torch.empty() ? "unknown" : recorded.ranks.front().torch;
  std::vector<NamedJudgement> all;
  std::vector<std::chrono::milliseconds> times;
  const auto add = [&](const Invariant& invariant, auto judge) {
    const auto began = Clock::now();
    all.push_back({invariant.name, invariant.rule, judge()});
    auto& judgement = all.back().judgement;
    if (judgement.why_not.empty()) judgement.remarks += std::move(remarks[invariant.name]);
    apply(allowances, all.back());
    times.push_back(since(began));
  };
  const auto groups = runs_of_groups(recorded);
  const auto about_the_world = [&](const Invariant& invariant) {
    auto judgement = invariant.judge(recorded);
    if (invariant.name == "run.is_recorded_whole")
      judgement.remarks += ranks_left_out(groups, recorded);
    return judgement;
  };
  const auto against = [&](const Invariant& invariant) -> Judgement {
    if (groups.size() > 1) return not_covered("the ranks train several models");
    return invariant.judge_against(groups.empty() ? recorded : groups.front().run, *one);
  };
  for (const auto& invariant : all_invariants()) {
    if (invariant.judge)
      add(invariant, [&] {
        return groups.empty() || is_about_the_world(invariant.name, groups)
                   ? about_the_world(invariant)
                   : judged_by_groups(invariant, groups);
      });
    if (invariant.judge_against && one) add(invariant, [&] { return against(invariant); });
    if (invariant.judge_after && before)
      add(invariant, [&] { return invariant.judge_after(recorded, *before); });
  }
  fold_consequences(all);
  for (size_t number = 0; number < all.size(); ++number) {
    run.results.push_back(result_of(std::move(all[number]), recorded, setting));
    auto& result = run.results.back();
    result.took = times[number];
    run.jobs.push_back({.scenario = result.scenario,
                        .exactness = result.exactness,
                        .setting = setting,
                        .cases = 1,
                        .hash = ""});
  }
  run.took = since(begin);
  return run;
}

bool compared_what_was_asked(const Run& run) {
  const auto has = [&](std::string_view name, bool skipped) {
    return std::any_of(run.results.begin(), run.results.end(), [&](const Result& result) {
      return result.scenario == name && (result.kind == Result::Kind::skip) == skipped;
    });
  };
  const bool is_alone = std::all_of(run.results.begin(), run.results.end(),
                                    [](const Result& is) { return is.world_max <= 1; });
  if (has("values.follow_one_process", true) || has("data.order_continues", true)) return false;
  return is_alone || has("parameters.are_the_same", false) ||
         has("values.follow_one_process", false);
}

void check_invariant_name(const std::string& name, const std::string& where) {
  const auto all = all_invariants();
  if (std::none_of(all.begin(), all.end(), [&](const auto& is) { return is.name == name; }))
    throw FieldError(where + ": no invariant of judge is named '" + one_line(name) +
                     "'; docs/judge.md lists them");
}

std::vector<std::string> read_allowances(const std::filesystem::path& file) {
  std::vector<std::string> names;
  size_t number = 0;
  for (const auto& line : split(read_file(file), '\n')) {
    ++number;
    auto name = line.substr(0, line.find('#'));
    name.erase(0, name.find_first_not_of(" \t\r"));
    name.erase(name.find_last_not_of(" \t\r") + 1);
    if (name.empty()) continue;
    check_invariant_name(name, one_line(file.string()) + ", line " + std::to_string(number));
    names.push_back(std::move(name));
  }
  return names;
}

}  // namespace lockstep::recorded
