#include "reports/run_file.h"

#include "harness/core/groups.h"
#include "reports/devices.h"
#include "reports/json.h"
#include "reports/json_at.h"
#include "reports/style.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>

namespace lockstep::reports {

namespace {

constexpr int64_t kCasesMost = 100'000'000;

Verdict::Kind verdict_kind(const At& at) {
  using Kind = Verdict::Kind;
  return at.one_of({Kind::crash, Kind::hang, Kind::leak, Kind::fail, Kind::inconclusive,
                    Kind::refused, Kind::pass});
}

Result::Kind result_kind(const At& at) {
  using Kind = Result::Kind;
  return at.one_of({Kind::pass, Kind::fail, Kind::hang, Kind::crash, Kind::leak, Kind::flaky,
                    Kind::inconclusive, Kind::skip});
}

std::vector<std::string> texts(const At& at) {
  std::vector<std::string> all;
  for (const auto& element : at.elements()) all.push_back(element.text());
  return all;
}

std::map<std::string, int64_t> counts(const At& at) {
  std::map<std::string, int64_t> all;
  for (const auto& [name, value] : at.object().items()) all[name] = at[name].whole(0, kCasesMost);
  return all;
}

Setting setting_of(const At& at) {
  return {at["subject"].text(), at["tier"].text(), at["backend"].text()};
}

std::optional<uint64_t> seed_of(const At& at) {
  if (at.is_null()) return {};
  const auto text = at.text();
  uint64_t seed = 0;
  if (text.starts_with("0x")) std::from_chars(text.data() + 2, text.data() + text.size(), seed, 16);
  if (seed_text(seed) != text) at.expected("a seed in hexadecimal, or null");
  return seed;
}

std::optional<RunShard> shard_at(const At& at) {
  if (at.is_null()) return {};
  const auto shard = shard_of(at.text());
  if (!shard || shard_text(*shard) != at.text()) at.expected("a shard such as \"2/5\", or null");
  return shard;
}

Findings findings_of(const At& at) {
  Findings findings;
  for (const auto& one : at.elements())
    findings.push_back(
        {one["rule"].text(), one["pattern"].text(), one["where"].text(), one["text"].text()});
  return findings;
}

Failure failure_of(const At& at, const std::string& scenario) {
  Failure failure;
  failure.c = {scenario, at["case"].object()};
  if (at["hash"].text() != hash_of(failure.c)) at["hash"].wrong("is not that of the case");
  const auto world = at["case"]["world"];
  world["size"].whole(1, kWorldMost);
  failure.unlike_default = at["unlike_default"].object();
  failure.of = at["of"].number(1, kCasesMost);
  failure.number = at["number"].number(1, failure.of);
  for (const auto& play : at["plays"].elements()) failure.plays.push_back(verdict_kind(play));
  failure.case_file = at["case_file"].text();
  failure.logs = at["logs"].text();
  failure.tail_rank = at["tail_rank"].number(0);
  failure.tail = at["tail"].text();
  failure.tail_file = at["tail_file"].text();
  failure.call_sites = texts(at["call_sites"]);
  return failure;
}

const Planned* planned_for(const Run& run, const Result& result) {
  for (const auto& planned : run.plan)
    if (planned.scenario == result.scenario && planned.setting == result.setting) return &planned;
  return nullptr;
}

std::vector<CaseGroup> groups_of(const At& at, int64_t cases,
                                 const std::optional<RunShard>& shard) {
  std::vector<CaseGroup> groups;
  for (const auto& one : at.elements()) {
    const auto numbers = numbers_of(one["cases"].text(), cases);
    if (!numbers) one["cases"].expected("numbers of cases up to " + std::to_string(cases));
    if (shard && std::any_of(numbers->begin(), numbers->end(),
                             [&](int number) { return !shard->plays(number); }))
      one["cases"].wrong("holds cases of another shard");
    groups.push_back({.verdict = verdict_kind(one["verdict"]),
                      .reason = one["reason"].text(),
                      .world = one["world"].number(0, kWorldMost),
                      .labels = texts(one["labels"]),
                      .numbers = *numbers});
  }
  return groups;
}

// What was left out is a reason that refused no case.
std::map<std::string, int64_t> not_zero(std::map<std::string, int64_t> counts) {
  std::erase_if(counts, [](const auto& count) { return count.second == 0; });
  return counts;
}

void check_counts(const At& at, const Result& result) {
  Result counted;
  counted.groups = result.groups;
  count_groups(counted);
  const bool agrees = counted.judged == result.judged && counted.labels == result.labels &&
                      counted.refused == not_zero(result.refused) &&
                      counted.world_min == result.world_min &&
                      counted.world_max == result.world_max;
  if (!agrees) at["groups"].wrong("do not add up to what the result counts");
}

bool belongs_to(Result::Kind kind, Verdict::Kind verdict) {
  if (kind == Result::Kind::skip) return verdict == Verdict::Kind::refused;
  if (kind == Result::Kind::flaky) return is_failure(verdict);
  return name_of(kind) == name_of(verdict);
}

void check_kind(const At& at, const Result& result) {
  const bool holds = result.kind == Result::Kind::pass || result.kind == Result::Kind::skip;
  if (!belongs_to(result.kind, result.worst.kind))
    at["verdict"].wrong("is not one of a result that is '" + std::string(name_of(result.kind)) +
                        "'");
  if (holds && result.failure) at["failure"].wrong("a result that holds has none");
  if (!holds && result.judged > 0 && !result.failure) at.wrong("the field 'failure' is missing");
  if (result.kind == Result::Kind::skip && result.refused.empty())
    at["refused"].wrong("a result that is skipped has a reason");
}

void check_sharing(const At& at, const Result& result, const Run& run) {
  const auto* shared = shared_by(result, run);
  const bool agrees =
      shared ? at["shares_devices"].text() == shared_text(*shared) : !at.has("shares_devices");
  if (!agrees) at.wrong("'shares_devices' is not what the run's 'shared_devices' say");
}

Result result_of(const At& at, const Run& run) {
  Result result{.scenario = at["scenario"].text(),
                .claim = at["claim"].text(),
                .exactness = at["exactness"].text(),
                .setting = setting_of(at),
                .kind = result_kind(at["result"]),
                .worst = {verdict_kind(at["verdict"]), findings_of(at["findings"])},
                .judged = at["judged"].whole(0, kCasesMost),
                .refused = counts(at["refused"]),
                .labels = counts(at["labels"]),
                .world_min = at["world_min"].number(0, kWorldMost),
                .world_max = at["world_max"].number(0, kWorldMost),
                .took = at["seconds"].time()};
  if (at["signature"].text() != result.worst.signature())
    at["signature"].wrong("is not that of the verdict and its first finding");
  check_sharing(at, result, run);
  const auto* planned = planned_for(run, result);
  if (!planned) at.wrong("is not in the plan");
  result.groups = groups_of(at["groups"], planned->cases, run.shard);
  if (at.has("failure")) result.failure = failure_of(at["failure"], result.scenario);
  check_counts(at, result);
  check_kind(at, result);
  return result;
}

SharedDevices shared_devices_in(const At& at) {
  return {.backend = at["backend"].text(),
          .kind = at["kind"].text(),
          .count = at["count"].number(1),
          .world_least = at["world_least"].number(2, kWorldMost),
          .world_most = at["world_most"].number(2, kWorldMost)};
}

Planned planned_of(const At& at) {
  return {.scenario = at["scenario"].text(),
          .exactness = at["exactness"].text(),
          .setting = setting_of(at),
          .cases = at["cases"].whole(0, kCasesMost),
          .hash = at["hash"].text()};
}

void check_version(const Json& json, const std::string& file) {
  if (!json.is_object() || !json.contains("lockstep_run"))
    throw FieldError(file + ": no run of Lockstep; expected an object with \"lockstep_run\"");
  const At version(json["lockstep_run"], file + ": lockstep_run");
  if (const auto found = version.number(0); found != kRunVersion)
    version.wrong("version " + std::to_string(found) + "; this program reads version " +
                  std::to_string(kRunVersion));
}

}  // namespace

Run run_of(const Json& json, const std::string& file) {
  check_version(json, file);
  const At at(json, file + ":");
  using Canary = Run::Canary;
  Run run{.version = at["version"].text(),
          .libtorch = at["libtorch"].text(),
          .seed = seed_of(at["seed"]),
          .cores = at["cores"].number(1),
          .slots = at["slots"].number(1),
          .shard = shard_at(at["shard"]),
          .canary = at["canary"].one_of(
              {Canary::not_played, Canary::failed, Canary::passed, Canary::inconclusive}),
          .interrupted = at["interrupted"].truth(),
          .took = at["seconds"].time(),
          .folder = at["folder"].text(),
          .exit_code = at["exit_code"].number(0, 255)};
  for (const auto& one : at["shared_devices"].elements())
    run.shared_devices.push_back(shared_devices_in(one));
  for (const auto& one : at["shards_missing"].elements())
    run.missing_shards.push_back(one.number(1, kShardsMost));
  for (const auto& one : at["plan"].elements()) run.plan.push_back(planned_of(one));
  for (const auto& planned : run.plan)
    if (std::find(run.settings.begin(), run.settings.end(), planned.setting) == run.settings.end())
      run.settings.push_back(planned.setting);
  for (const auto& one : at["results"].elements()) run.results.push_back(result_of(one, run));
  for (const auto& one : at["not_finished"].elements())
    run.not_finished.push_back({one["scenario"].text(), setting_of(one), one["reason"].text()});
  return run;
}

Run parse_run_file(const std::string& text, const std::string& file) {
  Json json;
  try {
    json = Json::parse(text);
  } catch (const Json::exception& error) {  // also a number that no double holds
    const std::string what = error.what();  // "[json.exception...] parse error at line 1, ..."
    throw FieldError(file + ": not JSON: " + what.substr(what.find("] ") + 2));
  }
  return run_of(json, file);
}

Run read_run_file(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::stringstream text;
  if (!in || !(text << in.rdbuf())) throw FieldError(file.string() + ": cannot be read");
  return parse_run_file(text.str(), file.string());
}

}  // namespace lockstep::reports
