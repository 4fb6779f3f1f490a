#include "reports/json.h"

#include "harness/core/groups.h"
#include "reports/devices.h"
#include "reports/style.h"

namespace lockstep::reports {

namespace {

double in_seconds(std::chrono::milliseconds time) {
  return static_cast<double>(time.count()) / 1000;
}

Json setting_json(const std::string& scenario, const Setting& setting) {
  return {{"scenario", scenario},
          {"subject", setting.subject},
          {"tier", setting.tier},
          {"backend", setting.backend}};
}

Json findings_json(const Findings& findings) {
  Json all = Json::array();
  for (const auto& finding : findings)
    all.push_back({{"rule", finding.rule},
                   {"pattern", finding.pattern},
                   {"where", finding.where},
                   {"text", finding.text}});
  return all;
}

Json failure_json(const Failure& failure) {
  Json plays = Json::array();
  for (const auto kind : failure.plays) plays.push_back(name_of(kind));
  return {{"number", failure.number},
          {"of", failure.of},
          {"hash", hash_of(failure.c)},
          {"case", failure.c.value},
          {"unlike_default", failure.unlike_default},
          {"plays", plays},
          {"case_file", failure.case_file.string()},
          {"logs", failure.logs.string()},
          {"tail_rank", failure.tail_rank},
          {"tail", failure.tail},
          {"tail_file", failure.tail_file.string()},
          {"call_sites", failure.call_sites}};
}

Json groups_json(const std::vector<CaseGroup>& groups) {
  Json all = Json::array();
  for (const auto& group : groups)
    all.push_back({{"verdict", name_of(group.verdict)},
                   {"reason", group.reason},
                   {"world", group.world},
                   {"labels", group.labels},
                   {"cases", numbers_text(group.numbers)}});
  return all;
}

Json plan_json(const std::vector<Planned>& plan) {
  Json all = Json::array();
  for (const auto& planned : plan) {
    all.push_back(setting_json(planned.scenario, planned.setting));
    all.back()["exactness"] = planned.exactness;
    all.back()["cases"] = planned.cases;
    all.back()["hash"] = planned.hash;
  }
  return all;
}

Json shared_json(const std::vector<SharedDevices>& shared) {
  Json all = Json::array();
  for (const auto& one : shared)
    all.push_back({{"backend", one.backend},
                   {"kind", one.kind},
                   {"count", one.count},
                   {"world_least", one.world_least},
                   {"world_most", one.world_most}});
  return all;
}

Json result_json(const Result& result, const Run& run) {
  Json json = setting_json(result.scenario, result.setting);
  json["claim"] = result.claim;
  json["exactness"] = result.exactness;
  json["result"] = name_of(result.kind);
  json["verdict"] = name_of(result.worst.kind);
  json["signature"] = result.worst.signature();
  json["judged"] = result.judged;
  json["refused"] = result.refused;
  json["labels"] = result.labels;
  json["world_min"] = result.world_min;
  json["world_max"] = result.world_max;
  json["seconds"] = in_seconds(result.took);
  if (const auto* shared = shared_by(result, run)) json["shares_devices"] = shared_text(*shared);
  json["groups"] = groups_json(result.groups);
  json["findings"] = findings_json(result.worst.findings);
  if (result.failure) json["failure"] = failure_json(*result.failure);
  return json;
}

}  // namespace

Json run_json(const Run& run) {
  Json json;
  json["lockstep_run"] = kRunVersion;
  json["version"] = run.version;
  json["libtorch"] = run.libtorch;
  json["seed"] = run.seed ? Json(seed_text(*run.seed)) : Json();
  json["shard"] = run.shard ? Json(shard_text(*run.shard)) : Json();
  json["shards_missing"] = run.missing_shards;
  json["cores"] = run.cores;
  json["slots"] = run.slots;
  json["shared_devices"] = shared_json(run.shared_devices);
  json["folder"] = run.folder.string();
  json["exit_code"] = run.exit_code;
  json["interrupted"] = run.interrupted;
  json["canary"] = name_of(run.canary);
  json["seconds"] = in_seconds(run.took);
  json["plan"] = plan_json(run.plan);
  json["results"] = Json::array();
  for (const auto& result : run.results) json["results"].push_back(result_json(result, run));
  json["not_finished"] = Json::array();
  for (const auto& skip : run.not_finished) {
    json["not_finished"].push_back(setting_json(skip.scenario, skip.setting));
    json["not_finished"].back()["reason"] = skip.reason;
  }
  return json;
}

std::string file_text(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace lockstep::reports
