#include "reports/json.h"

#include "harness/base/characters.h"
#include "harness/cases/groups.h"
#include "harness/verdict/finding_json.h"
#include "reports/coverage.h"
#include "reports/devices.h"
#include "reports/findings/text.h"
#include "reports/style.h"

namespace lockstep::reports {

namespace {

double in_seconds(std::chrono::milliseconds time) {
  return static_cast<double>(time.count()) / 1000;
}

// Puts text from elsewhere, such as a reason, on one line, as run_file requires.
std::vector<std::string> lines(const std::vector<std::string>& texts) {
  std::vector<std::string> all;
  for (const auto& text : texts) all.push_back(one_line(text));
  return all;
}

std::map<std::string, int64_t> counts(const std::map<std::string, int64_t>& by_name) {
  std::map<std::string, int64_t> all;
  for (const auto& [name, count] : by_name) all[one_line(name)] += count;
  return all;
}

Json setting_json(const std::string& scenario, const Setting& setting) {
  return {{"scenario", scenario},
          {"subject", setting.subject},
          {"tier", setting.tier},
          {"backend", setting.backend}};
}

Json findings_json(const Findings& findings) {
  Json all = Json::array();
  for (const auto& finding : findings) {
    all.push_back({{"rule", one_line(finding.rule)},
                   {"pattern", one_line(finding.pattern)},
                   {"where", one_line(finding.where.text())},
                   {"text", text_of(finding)},
                   {"diagnosis", finding.diagnosis},
                   {"place", json_of(finding.where)},
                   {"details", json_of(finding.details)}});
    if (!finding.cause.empty()) all.back()["cause"] = one_line(finding.cause);
    if (!finding.limit.empty()) all.back()["limit"] = one_line(finding.limit);
  }
  return all;
}

Json shrunk_json(const Shrunk& shrunk) {
  Json notes = Json::array();
  for (const auto& note : shrunk.notes)
    notes.push_back({{"path", note.path},
                     {"value", note.value},
                     {"any", note.any},
                     {"passes", one_line(note.passes)}});
  return {{"drawn", shrunk.drawn},
          {"drawn_unlike_default", shrunk.drawn_unlike_default},
          {"steps", shrunk.steps},
          {"runs", shrunk.runs},
          {"tier", shrunk.tier},
          {"seconds", in_seconds(shrunk.took)},
          {"end", name_of(shrunk.end)},
          {"failed", shrunk.failed},
          {"smallest_runs", shrunk.smallest_runs},
          {"notes", notes}};
}

Json failure_json(const Failure& failure) {
  Json runs = Json::array();
  for (const auto kind : failure.runs) runs.push_back(name_of(kind));
  Json json{{"number", failure.number},
            {"of", failure.of},
            {"hash", hash_of(failure.c)},
            {"case", failure.c.value},
            {"unlike_default", failure.unlike_default},
            {"runs", runs},
            {"case_file", failure.case_file.string()},
            {"logs", failure.logs.string()},
            {"tail_rank", failure.tail_rank},
            {"tail", failure.tail},
            {"tail_file", failure.tail_file.string()},
            {"stack", failure.stack},
            {"stack_file", failure.stack_file.string()},
            {"call_sites", lines(failure.call_sites)}};
  if (!failure.program.empty()) json["program"] = one_line(failure.program);
  if (!failure.usual_mistake.empty()) json["usual_mistake"] = one_line(failure.usual_mistake);
  if (failure.archived) json["archived"] = true;
  if (failure.shrunk) json["shrunk"] = shrunk_json(*failure.shrunk);
  if (!failure.further.empty()) json["further"] = findings_json(failure.further);
  return json;
}

Json others_json(const std::vector<Result::Found>& others) {
  Json all = Json::array();
  for (const auto& other : others)
    all.push_back({{"result", name_of(other.kind)},
                   {"verdict", name_of(other.worst.kind)},
                   {"signature", one_line(other.worst.signature())},
                   {"findings", findings_json(other.worst.findings)},
                   {"failure", failure_json(other.failure)}});
  return all;
}

Json groups_json(const std::vector<CaseGroup>& groups) {
  Json all = Json::array();
  for (const auto& group : groups) {
    all.push_back({{"verdict", name_of(group.verdict)},
                   {"reason", one_line(group.reason)},
                   {"world", group.world},
                   {"labels", lines(group.labels)},
                   {"cases", group.numbers.text()}});
    if (!group.signature.empty()) all.back()["signature"] = one_line(group.signature);
  }
  return all;
}

Json jobs_json(const std::vector<JobSummary>& jobs) {
  Json all = Json::array();
  for (const auto& summary : jobs) {
    all.push_back(setting_json(summary.scenario, summary.setting));
    all.back()["exactness"] = summary.exactness;
    all.back()["cases"] = summary.cases;
    all.back()["hash"] = summary.hash;
    if (summary.pairs.all > 0) all.back()["pairs"] = json_of(summary.pairs);
  }
  return all;
}

Json slowest_json(const std::vector<SlowCase>& slowest) {
  Json all = Json::array();
  for (const auto& slow : slowest) {
    all.push_back(setting_json(slow.scenario, slow.setting));
    all.back()["case"] = slow.number;
    all.back()["seconds"] = in_seconds(slow.took);
  }
  return all;
}

Json shared_json(const std::vector<SharedDevices>& shared) {
  Json all = Json::array();
  for (const auto& one : shared)
    all.push_back({{"backend", one.backend},
                   {"kind", one_line(one.kind)},
                   {"count", one.count},
                   {"world_least", one.world_least},
                   {"world_most", one.world_most}});
  return all;
}

Json result_json(const Result& result, const Run& run) {
  Json json = setting_json(result.scenario, result.setting);
  json["claim"] = one_line(result.claim);
  json["exactness"] = result.exactness;
  json["result"] = name_of(result.kind);
  json["verdict"] = name_of(result.worst.kind);
  json["signature"] = one_line(result.worst.signature());
  json["judged"] = result.judged;
  json["refused"] = counts(result.refused);
  json["labels"] = counts(result.labels);
  if (!result.signatures.empty()) json["signatures"] = counts(result.signatures);
  if (!result.required_shares.empty()) json["required_shares"] = json_of(result.required_shares);
  if (result.schedules.cases > 0) json["schedules"] = json_of(result.schedules);
  json["world_min"] = result.world_min;
  json["world_max"] = result.world_max;
  json["seconds"] = in_seconds(result.took);
  if (const auto* shared = shared_by(result, run))
    json["shares_devices"] = one_line(shared_text(*shared));
  json["groups"] = groups_json(result.groups);
  json["findings"] = findings_json(result.worst.findings);
  if (!result.remarks.empty()) json["remarks"] = findings_json(result.remarks);
  if (result.failure) json["failure"] = failure_json(*result.failure);
  if (!result.others.empty()) json["others"] = others_json(result.others);
  return json;
}

}  // namespace

Json run_json(const Run& run) {
  Json json;
  json["lockstep_run"] = kRunVersion;
  json["version"] = run.version;
  json["libtorch"] = run.libtorch;
  if (!run.command.empty()) json["command"] = run.command;
  json["seed"] = run.seed ? Json(seed_text(*run.seed)) : Json();
  json["shard"] = run.shard ? Json(shard_text(*run.shard)) : Json();
  json["shards_missing"] = run.missing_shards;
  if (run.kept_going) json["kept_going"] = true;
  json["cores"] = run.cores;
  json["slots"] = run.slots;
  json["shared_devices"] = shared_json(run.shared_devices);
  json["folder"] = run.folder.string();
  json["exit_code"] = run.exit_code;
  json["interrupted"] = run.interrupted;
  json["canary"] = name_of(run.canary);
  if (!run.blind.empty()) json["blind"] = run.blind;
  json["seconds"] = in_seconds(run.took);
  json["jobs"] = jobs_json(run.jobs);
  json["results"] = Json::array();
  for (const auto& result : run.results) json["results"].push_back(result_json(result, run));
  json["not_finished"] = Json::array();
  for (const auto& skip : run.not_finished) {
    json["not_finished"].push_back(setting_json(skip.scenario, skip.setting));
    json["not_finished"].back()["reason"] = one_line(skip.reason);
  }
  if (!run.slowest.empty()) json["slowest"] = slowest_json(run.slowest);
  return json;
}

std::string file_text(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace lockstep::reports
