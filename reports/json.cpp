#include "reports/json.h"

#include "reports/style.h"

namespace lockstep::reports {

namespace {

constexpr int kRunVersion = 1;

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

Json result_json(const Result& result) {
  Json json = setting_json(result.scenario, result.setting);
  json["claim"] = result.claim;
  json["exactness"] = result.exactness;
  json["result"] = name_of(result.kind);
  json["signature"] = result.worst.signature();
  json["judged"] = result.judged;
  json["refused"] = result.refused;
  json["labels"] = result.labels;
  json["world_min"] = result.world_min;
  json["world_max"] = result.world_max;
  json["seconds"] = in_seconds(result.took);
  json["findings"] = findings_json(result.worst.findings);
  if (result.failure) json["failure"] = failure_json(*result.failure);
  return json;
}

const char* name_of(Run::Canary canary) {
  switch (canary) {
    case Run::Canary::not_played:
      return "not played";
    case Run::Canary::failed:
      return "failed";
    case Run::Canary::passed:
      return "passed";
    case Run::Canary::inconclusive:
      return "inconclusive";
  }
  return "?";
}

}  // namespace

Json run_json(const Run& run) {
  Json json;
  json["lockstep_run"] = kRunVersion;
  json["version"] = run.version;
  json["libtorch"] = run.libtorch;
  json["seed"] = run.seed ? Json(seed_text(*run.seed)) : Json();
  json["cores"] = run.cores;
  json["slots"] = run.slots;
  json["folder"] = run.folder.string();
  json["exit_code"] = run.exit_code;
  json["interrupted"] = run.interrupted;
  json["canary"] = name_of(run.canary);
  json["seconds"] = in_seconds(run.took);
  json["results"] = Json::array();
  for (const auto& result : run.results) json["results"].push_back(result_json(result));
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
