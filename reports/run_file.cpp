#include "reports/run_file.h"

#include "harness/base/characters.h"
#include "harness/base/parse_json.h"
#include "harness/base/read_file.h"
#include "harness/base/text.h"
#include "harness/cases/groups.h"
#include "reports/coverage.h"
#include "reports/findings/file.h"
#include "reports/json.h"
#include "reports/json_at.h"
#include "reports/result_checks.h"
#include "reports/style.h"

#include <algorithm>
#include <charconv>

namespace lockstep::reports {

namespace {

constexpr int64_t kCasesMost = 100'000'000;
constexpr size_t kJobsMost = 10'000, kSharedDevicesMost = 1'000, kBlindMost = 1'000;

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

std::vector<std::string> lines(const At& at) {
  std::vector<std::string> all;
  for (const auto& element : at.elements()) all.push_back(element.line());
  return all;
}

std::map<std::string, int64_t> counts(const At& at) {
  std::map<std::string, int64_t> all;
  for (const auto& [name, value] : at.fields()) {
    if (!is_one_line(name)) value.wrong("the name of the field is not one line");
    all[name] = value.whole(0, kCasesMost);
  }
  return all;
}

// A limit above what any program has, since each is compared with all others.
std::vector<At> at_most(size_t most, const At& at) {
  auto all = at.elements();
  if (all.size() > most)
    at.wrong("a list of " + with_commas(static_cast<int64_t>(all.size())) +
             " is too long; the longest has " + with_commas(static_cast<int64_t>(most)));
  return all;
}

std::vector<int> missing_shards_at(const At& at) {
  std::vector<int> missing;
  for (const auto& one : at.elements())
    missing.push_back(one.number(missing.empty() ? 1 : missing.back() + 1, kShardsMost));
  return missing;
}

Setting setting_of(const At& at) {
  return {at["subject"].line(), at["tier"].line(), at["backend"].line()};
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

Shrunk shrunk_of(const At& at) {
  using End = Shrunk::End;
  Shrunk shrunk{.drawn = at["drawn"].object(),
                .drawn_unlike_default = at["drawn_unlike_default"].object(),
                .steps = at["steps"].number(0),
                .runs = at["runs"].whole(0, kCasesMost),
                .tier = at["tier"].line(),
                .took = at["seconds"].time(),
                .end = at["end"].one_of({End::smallest, End::time, End::runs, End::interrupted}),
                .failed = at["failed"].number(0),
                .smallest_runs = at["smallest_runs"].number(0)};
  if (shrunk.failed > shrunk.smallest_runs) at["failed"].wrong("is more than 'smallest_runs'");
  for (const auto& note : at["notes"].elements())
    shrunk.notes.push_back({.path = note["path"].line(),
                            .value = note["value"].json(),
                            .any = note["any"].truth(),
                            .passes = note["passes"].line()});
  return shrunk;
}

Failure failure_of(const At& at, const std::string& scenario) {
  Failure failure;
  failure.c = {scenario, at["case"].object()};
  if (at["hash"].line() != hash_of(failure.c)) at["hash"].wrong("is not that of the case");
  const auto world = at["case"]["world"];
  world["size"].whole(1, kWorldMost);
  if (at.has("program")) failure.program = at["program"].line();
  if (at.has("usual_mistake")) failure.usual_mistake = at["usual_mistake"].line();
  failure.unlike_default = at["unlike_default"].object();
  failure.of = at["of"].number(1, kCasesMost);
  failure.number = at["number"].number(1, failure.of);
  failure.archived = at.has("archived") && at["archived"].truth();
  for (const auto& run : at["runs"].elements()) failure.runs.push_back(verdict_kind(run));
  failure.case_file = at["case_file"].text();
  failure.logs = at["logs"].text();
  failure.tail_rank = at["tail_rank"].number(0);
  failure.tail = at["tail"].text();
  failure.tail_file = at["tail_file"].text();
  failure.stack = at["stack"].text();
  failure.stack_file = at["stack_file"].text();
  failure.call_sites = lines(at["call_sites"]);
  if (at.has("shrunk")) failure.shrunk = shrunk_of(at["shrunk"]);
  if (at.has("further")) failure.further = findings_of(at["further"]);
  return failure;
}

Result::Found found_of(const At& at, const std::string& scenario) {
  Result::Found found{.kind = result_kind(at["result"]),
                      .worst = {verdict_kind(at["verdict"]), findings_of(at["findings"])},
                      .failure = failure_of(at["failure"], scenario)};
  check_signature(at, found.worst);
  check_verdict(at, found.kind, found.worst);
  if (!is_failure(found.kind) && found.kind != Result::Kind::inconclusive)
    at["result"].wrong("a case that holds has no signature");
  return found;
}

const JobSummary* summary_for(const Run& run, const Result& result) {
  for (const auto& summary : run.jobs)
    if (summary.scenario == result.scenario && summary.setting == result.setting) return &summary;
  return nullptr;
}

// A range of cases belongs to one shard only if that shard is the only one.
bool covers(const RunShard& shard, const NumberSet& numbers) {
  return std::all_of(numbers.ranges().begin(), numbers.ranges().end(), [&](const auto& range) {
    return shard.has(range.first) && (shard.of == 1 || range.first == range.last);
  });
}

NumberSet numbers_at(const At& at, int64_t cases, const std::optional<RunShard>& shard) {
  auto numbers = NumberSet::parsed(at.text(), cases);
  if (!numbers) at.expected("numbers of cases up to " + std::to_string(cases));
  if (shard && !covers(*shard, *numbers)) at.wrong("holds cases of another shard");
  return std::move(*numbers);
}

std::vector<CaseGroup> groups_of(const At& at, int64_t cases,
                                 const std::optional<RunShard>& shard) {
  std::vector<CaseGroup> groups;
  std::vector<NumberSet> numbers;
  for (const auto& one : at.elements()) {
    numbers.push_back(numbers_at(one["cases"], cases, shard));
    groups.push_back({.verdict = verdict_kind(one["verdict"]),
                      .reason = one["reason"].line(),
                      .world = one["world"].number(0, kWorldMost),
                      .labels = lines(one["labels"]),
                      .signature = one.has("signature") ? one["signature"].line() : "",
                      .numbers = numbers.back()});
  }
  if (overlap(numbers)) at.wrong("a case is in two groups");
  return groups;
}

Result result_of(const At& at, const Run& run) {
  Result result{.scenario = at["scenario"].line(),
                .claim = at["claim"].line(),
                .exactness = at["exactness"].line(),
                .setting = setting_of(at),
                .kind = result_kind(at["result"]),
                .worst = {verdict_kind(at["verdict"]), findings_of(at["findings"])},
                .judged = at["judged"].whole(0, kCasesMost),
                .refused = counts(at["refused"]),
                .labels = counts(at["labels"]),
                .world_min = at["world_min"].number(0, kWorldMost),
                .world_max = at["world_max"].number(0, kWorldMost),
                .took = at["seconds"].time()};
  check_signature(at, result.worst);
  if (at.has("signatures")) result.signatures = counts(at["signatures"]);
  if (at.has("required_shares")) result.required_shares = required_shares_at(at["required_shares"]);
  if (at.has("schedules")) result.schedules = schedules_at(at["schedules"]);
  check_sharing(at, result, run);
  const auto* summary = summary_for(run, result);
  if (!summary) at.wrong("is not among the jobs");
  result.groups = groups_of(at["groups"], summary->cases, run.shard);
  if (at.has("remarks")) result.remarks = findings_of(at["remarks"]);
  if (at.has("failure")) result.failure = failure_of(at["failure"], result.scenario);
  if (at.has("others"))
    for (const auto& one : at["others"].elements())
      result.others.push_back(found_of(one, result.scenario));
  check_agreement(at, result);
  return result;
}

SharedDevices shared_devices_in(const At& at) {
  return {.backend = at["backend"].line(),
          .kind = at["kind"].line(),
          .count = at["count"].number(1),
          .world_least = at["world_least"].number(2, kWorldMost),
          .world_most = at["world_most"].number(2, kWorldMost)};
}

SlowCase slow_of(const At& at) {
  return {.scenario = at["scenario"].line(),
          .setting = setting_of(at),
          .number = at["case"].number(1, kCasesMost),
          .took = at["seconds"].time()};
}

JobSummary job_summary(const At& at) {
  return {.scenario = at["scenario"].line(),
          .exactness = at["exactness"].line(),
          .setting = setting_of(at),
          .cases = at["cases"].whole(0, kCasesMost),
          .hash = at["hash"].line(),
          .pairs = at.has("pairs") ? pairs_at(at["pairs"]) : PairCoverage()};
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
  Run run{.command = at.has("command") ? at["command"].line() : "",
          .version = at["version"].line(),
          .libtorch = at["libtorch"].line(),
          .seed = seed_of(at["seed"]),
          .cores = at["cores"].number(1),
          .slots = at["slots"].number(1),
          .shard = shard_at(at["shard"]),
          .kept_going = at.has("kept_going") && at["kept_going"].truth(),
          .canary = at["canary"].one_of(
              {Canary::not_run, Canary::failed, Canary::passed, Canary::inconclusive}),
          .interrupted = at["interrupted"].truth(),
          .took = at["seconds"].time(),
          .folder = at["folder"].text(),
          .exit_code = at["exit_code"].number(0, 255)};
  for (const auto& one : at_most(kSharedDevicesMost, at["shared_devices"]))
    run.shared_devices.push_back(shared_devices_in(one));
  run.missing_shards = missing_shards_at(at["shards_missing"]);
  if (at.has("blind"))
    for (const auto& one : at_most(kBlindMost, at["blind"])) run.blind.push_back(one.line());
  for (const auto& one : at_most(kJobsMost, at["jobs"])) run.jobs.push_back(job_summary(one));
  for (const auto& summary : run.jobs)
    if (std::find(run.settings.begin(), run.settings.end(), summary.setting) == run.settings.end())
      run.settings.push_back(summary.setting);
  for (const auto& one : at_most(run.jobs.size(), at["results"]))
    run.results.push_back(result_of(one, run));
  for (const auto& one : at_most(run.jobs.size(), at["not_finished"]))
    run.not_finished.push_back({one["scenario"].line(), setting_of(one), one["reason"].line()});
  if (at.has("slowest"))
    for (const auto& one : at_most(kSlowestMost, at["slowest"]))
      run.slowest.push_back(slow_of(one));
  return run;
}

Run parse_run_file(const std::string& text, const std::string& file) {
  return run_of(parse_json(text, file), file);
}

Run read_run_file(const std::filesystem::path& file) {
  return parse_run_file(read_file(file), one_line(file.string()));
}

}  // namespace lockstep::reports
