#include "reports/run_file.h"

#include "harness/base/parse_json.h"
#include "harness/base/read_file.h"
#include "harness/base/text.h"
#include "reports/devices.h"
#include "reports/run_fields.h"

#include <algorithm>
#include <set>

namespace lockstep::reports {

namespace {

[[noreturn]] void wrong(const std::string& at, const std::string& why) {
  throw FieldError(at + ": " + why);
}

bool belongs_to(Result::Kind kind, Verdict::Kind verdict) {
  if (kind == Result::Kind::skip) return verdict == Verdict::Kind::refused;
  if (kind == Result::Kind::flaky) return is_failure(verdict);
  return name_of(kind) == name_of(verdict);
}

void check_verdict(Result::Kind kind, const Verdict& verdict, const std::string& at) {
  if (!belongs_to(kind, verdict.kind))
    wrong(at + ".verdict", "is not one of a result that is '" + std::string(name_of(kind)) + "'");
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

void check_groups(const Result& result, const Run& run, const std::string& at) {
  const auto* summary = summary_for(run, result);
  if (!summary) wrong(at, "is not among the jobs");
  std::vector<NumberSet> numbers;
  for (const auto& group : result.groups) {
    const auto cases = at + ".groups[" + std::to_string(numbers.size()) + "].cases";
    if (!group.numbers.empty() && group.numbers.last() > summary->cases)
      wrong(cases, "expected numbers of cases up to " + std::to_string(summary->cases) +
                       ", found " + std::to_string(group.numbers.last()));
    if (run.shard && !covers(*run.shard, group.numbers))
      wrong(cases, "holds cases of another shard");
    numbers.push_back(group.numbers);
  }
  if (overlap(numbers)) wrong(at + ".groups", "a case is in two groups");
}

// Each signature that was counted has its case, and nothing else has.
void check_signatures(const Result& result, const std::string& at) {
  std::set<std::string> counted, reported;
  for (const auto& [signature, cases] : result.signatures) counted.insert(signature);
  if (result.failure) reported.insert(result.worst.signature());
  for (const auto& other : result.others) reported.insert(other.worst.signature());
  const bool once_each = reported.size() == result.others.size() + (result.failure ? 1 : 0);
  if ((!counted.empty() || !result.others.empty()) && (reported != counted || !once_each))
    wrong(at + ".groups", "their signatures are not those of the result and its 'others'");
}

void check_kind(const Result& result, const std::string& at) {
  check_verdict(result.kind, result.worst, at);
  const bool holds = result.kind == Result::Kind::pass || result.kind == Result::Kind::skip;
  if (holds && result.failure) wrong(at + ".failure", "a result that holds has none");
  const bool only_misses_a_share =
      result.kind == Result::Kind::fail && !missed_shares(result).empty();
  // A recorded run has no case that could run again.
  const bool has_case = result.setting.tier != kRecorded && !only_misses_a_share;
  if (!holds && result.judged > 0 && !result.failure && has_case) wrong(at, "has no 'failure'");
  if (result.kind == Result::Kind::skip && result.refused.empty())
    wrong(at, "a result that is skipped has refused cases, or a finding that says why");
}

// The reason why a result has no cases at all is that of its finding.
void add_reason_without_cases(Result& result) {
  const auto& findings = result.worst.findings;
  if (result.kind == Result::Kind::skip && result.refused.empty() && !findings.empty())
    result.refused[findings.front().diagnosis] = 0;
}

void check_others(const Result& result, const std::string& at) {
  for (size_t i = 0; i < result.others.size(); ++i) {
    const auto& other = result.others[i];
    const auto path = at + ".others[" + std::to_string(i) + "]";
    check_verdict(other.kind, other.worst, path);
    if (!is_failure(other.kind) && other.kind != Result::Kind::inconclusive)
      wrong(path + ".result", "a case that holds has no signature");
  }
}

void finish(Result& result, const Run& run, const std::string& at) {
  check_groups(result, run, at);
  count_groups(result);
  add_reason_without_cases(result);
  if (result.failure) result.failure->c.scenario = result.scenario;
  for (auto& other : result.others) other.failure.c.scenario = result.scenario;
  check_kind(result, at);
  check_others(result, at);
  check_signatures(result, at);
}

// Fills in what follows from the fields, and checks that they agree with each other.
void finish(Run& run, const std::string& at) {
  const auto too_long = [&](const char* name, size_t size) {
    if (size > run.jobs.size())
      wrong(at + "." + name, "a list of " + std::to_string(size) +
                                 " is too long; the longest has " +
                                 std::to_string(run.jobs.size()));
  };
  too_long("results", run.results.size());
  too_long("not_finished", run.not_finished.size());
  if (std::adjacent_find(run.missing_shards.begin(), run.missing_shards.end(),
                         std::greater_equal<>()) != run.missing_shards.end())
    wrong(at + ".shards_missing", "expected ascending numbers");
  for (const auto& summary : run.jobs)
    if (std::find(run.settings.begin(), run.settings.end(), summary.setting) == run.settings.end())
      run.settings.push_back(summary.setting);
  for (size_t i = 0; i < run.results.size(); ++i)
    finish(run.results[i], run, at + ".results[" + std::to_string(i) + "]");
}

void check_version(const Json& json, const std::string& file) {
  if (!json.is_object() || !json.contains("lockstep_run"))
    throw FieldError(file + ": no run of Lockstep; expected an object with \"lockstep_run\"");
  const auto at = file + ": lockstep_run";
  int found = 0;
  fields::read(json["lockstep_run"], found, at_least(0), at, Reading::whole);
  if (found != kRunVersion)
    wrong(at, "version " + std::to_string(found) + "; this program reads version " +
                  std::to_string(kRunVersion));
}

}  // namespace

Json run_json(const Run& run) {
  Json json{{"lockstep_run", kRunVersion}};
  json.update(to_json(run));
  for (size_t i = 0; i < run.results.size(); ++i)
    if (const auto* shared = shared_by(run.results[i], run))
      json["results"][i]["shares_devices"] = one_line(shared_text(*shared));
  return json;
}

std::string file_text(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Run parse_run_file(const std::string& text, const std::string& file) {
  const auto json = parse_json(text, file);
  check_version(json, file);
  const auto at = file + ": run";
  auto run = from_json<Run>(json, at, Reading::whole_and_more);
  finish(run, at);
  return run;
}

Run read_run_file(const std::filesystem::path& file) {
  return parse_run_file(read_file(file), one_line(file.string()));
}

}  // namespace lockstep::reports
