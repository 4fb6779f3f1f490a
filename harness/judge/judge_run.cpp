#include "harness/judge/judge_run.h"

#include "harness/core/groups.h"
#include "harness/judge/claims.h"
#include "harness/judge/joins.h"

namespace lockstep::recorded {

namespace {

using Clock = std::chrono::steady_clock;

std::chrono::milliseconds since(Clock::time_point begin) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin);
}

// Of the program that recorded: its name, and the backend of its process group.
Setting setting_of(const RecordedRun& recorded) {
  Setting setting{.subject = "program", .tier = "recorded", .backend = "unknown"};
  for (const auto& rank : recorded.ranks) {
    if (!rank.program.empty()) setting.subject = rank.program;
    for (const auto& record : rank.records)
      if (const auto* fact = std::get_if<Fact>(&record.what);
          fact && fact->name == "process group" && !fact->text("backend").empty())
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

struct Named {
  std::string_view name, rule;
};

template <class Judge>
Result result_of(const Named& claim, Judge judge, const RecordedRun& recorded,
                 const Setting& setting) {
  const auto begin = Clock::now();
  Judgement judgement = judge();
  for (auto& finding : judgement.findings) finding.rule = claim.rule;
  Result result{.scenario = std::string(claim.name),
                .claim = std::string(claim.rule),
                .exactness = judgement.compared,
                .setting = setting,
                .kind = kind_of(judgement)};
  result.worst = {verdict_of(result.kind), std::move(judgement.findings)};
  if (result.kind == Result::Kind::skip)
    result.worst.findings = {{result.claim, "refused", "", judgement.why_not}};
  const auto world = static_cast<int>(recorded.ranks.size());
  CaseGroup group{.verdict = result.worst.kind, .reason = judgement.why_not, .numbers = {1}};
  if (result.kind != Result::Kind::skip) {
    group.world = world;
    group.labels = {"world " + std::to_string(world)};
  }
  result.groups = {std::move(group)};
  count_groups(result);
  result.took = since(begin);
  return result;
}

}  // namespace

Run judged(const RecordedRun& as_recorded, const OneProcess* one) {
  const auto begin = Clock::now();
  const auto aligned = with_joins_aligned(as_recorded);
  const auto& recorded = aligned ? *aligned : as_recorded;
  Run run;
  const auto setting = setting_of(recorded);
  run.settings = {setting};
  run.libtorch = recorded.ranks.front().torch.empty() ? "unknown" : recorded.ranks.front().torch;
  const auto add = [&](const Named& claim, auto judge) {
    run.results.push_back(result_of(claim, judge, recorded, setting));
    const auto& result = run.results.back();
    run.plan.push_back({.scenario = result.scenario,
                        .exactness = result.exactness,
                        .setting = setting,
                        .cases = 1,
                        .hash = ""});
  };
  for (const auto& claim : claims())
    add({claim.name, claim.rule}, [&] { return claim.judge(recorded); });
  if (one)
    for (const auto& claim : claims_against())
      add({claim.name, claim.rule}, [&] { return claim.judge(recorded, *one); });
  run.took = since(begin);
  return run;
}

}  // namespace lockstep::recorded
