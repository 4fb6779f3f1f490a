// The fields of run.json, which reports/run_file writes and reads. "lockstep_run", the version of
// the format, stands before those of the run.
#pragma once

#include "reports/findings/fields.h"
#include "reports/run_forms.h"

namespace lockstep {

inline constexpr int64_t kCountMost = 1'000'000'000'000'000;
// Limits above what any program has: each is compared with all others.
inline constexpr size_t kJobsMost = 10'000, kSharedDevicesMost = 1'000, kBlindMost = 1'000;

template <>
struct FieldsOf<Setting> {
  static constexpr auto fields() {
    return std::tuple{line("subject", &Setting::subject), line("tier", &Setting::tier),
                      line("backend", &Setting::backend)};
  }
};

template <>
struct FieldsOf<FieldNote> {
  using T = FieldNote;
  static constexpr auto fields() {
    return std::tuple{line("path", &T::path), field("value", &T::value), field("any", &T::any),
                      line("passes", &T::passes)};
  }
};

template <>
struct FieldsOf<Shrunk> {
  using T = Shrunk;
  static constexpr auto fields() {
    return std::tuple{field<AsObject>("drawn", &T::drawn),
                      field<AsObject>("drawn_unlike_default", &T::drawn_unlike_default),
                      field("steps", &T::steps, at_least(0)),
                      field("runs", &T::runs, between(0, kCasesMost)),
                      line("tier", &T::tier),
                      seconds("seconds", &T::took),
                      field("end", &T::end),
                      field("failed", &T::failed, at_least(0)),
                      field("smallest_runs", &T::smallest_runs, at_least(0)),
                      field("notes", &T::notes)};
  }
  static std::string finish(const T& shrunk) {
    return shrunk.failed > shrunk.smallest_runs ? "'failed' is more than 'smallest_runs'" : "";
  }
};

template <>
struct FieldsOf<Failure> {
  using T = Failure;
  static constexpr auto fields() {
    return std::tuple{field("number", &T::number, between(1, kCasesMost)),
                      field("of", &T::of, between(1, kCasesMost)),
                      field<ValueOfCase>("case", &T::c),
                      field<AsObject>("unlike_default", &T::unlike_default),
                      field("runs", &T::runs),
                      field<AsPath>("case_file", &T::case_file),
                      field<AsPath>("logs", &T::logs),
                      field("tail_rank", &T::tail_rank, at_least(0)),
                      field("tail", &T::tail),
                      field<AsPath>("tail_file", &T::tail_file),
                      field("stack", &T::stack),
                      field<AsPath>("stack_file", &T::stack_file),
                      lines("call_sites", &T::call_sites),
                      unless_default(line("program", &T::program)),
                      unless_default(line("usual_mistake", &T::usual_mistake)),
                      unless_default(field("archived", &T::archived)),
                      field("shrunk", &T::shrunk),
                      unless_default(field("further", &T::further)),
                      derived("hash", [](const T& failure) { return hash_of(failure.c); })};
  }
  static std::string finish(const T& failure) {
    return failure.number > failure.of ? "'number' is more than 'of'" : "";
  }
};

template <>
struct FieldsOf<Result::Found> {
  using T = Result::Found;
  static constexpr auto fields() {
    return std::tuple{field("result", &T::kind), spliced(&T::worst), field("failure", &T::failure)};
  }
};

template <>
struct FieldsOf<CaseGroup> {
  using T = CaseGroup;
  static constexpr auto fields() {
    return std::tuple{field("verdict", &T::verdict),
                      line("reason", &T::reason),
                      field("world", &T::world, between(0, kWorldMost)),
                      lines("labels", &T::labels),
                      field<AsNumbers>("cases", &T::numbers),
                      unless_default(line("signature", &T::signature))};
  }
};

template <>
struct FieldsOf<RequiredShare> {
  using T = RequiredShare;
  static constexpr auto fields() {
    return std::tuple{line("label", &T::label), field("share", &T::share, between(0, 1))};
  }
};

template <>
struct FieldsOf<ScheduleCounts> {
  using T = ScheduleCounts;
  static constexpr auto fields() {
    return std::tuple{field("run", &T::schedules, between(1, kCountMost)),
                      field("cases", &T::cases, between(1, kCountMost)),
                      field("complete", &T::complete, between(0, kCountMost)),
                      field("decisions_min", &T::decisions_min, at_least(0))};
  }
  static std::string finish(const T& counts) {
    return counts.complete > counts.cases ? "'complete' is more than 'cases'" : "";
  }
};

template <>
struct FieldsOf<PairCoverage> {
  using T = PairCoverage;
  static constexpr auto fields() {
    return std::tuple{field("covered", &T::covered, between(0, kCountMost)),
                      field("all", &T::all, between(1, kCountMost))};
  }
  static std::string finish(const T& pairs) {
    return pairs.covered > pairs.all ? "'covered' is more than 'all'" : "";
  }
};

template <>
struct FieldsOf<Result> {
  using T = Result;
  static constexpr auto fields() {
    return std::tuple{line("scenario", &T::scenario),
                      spliced(&T::setting),
                      line("claim", &T::claim),
                      line("exactness", &T::exactness),
                      field("result", &T::kind),
                      spliced(&T::worst),
                      unless_default(field("required_shares", &T::required_shares)),
                      unless_default(field("schedules", &T::schedules)),
                      seconds("seconds", &T::took),
                      field("groups", &T::groups),
                      unless_default(field("remarks", &T::remarks)),
                      field("failure", &T::failure),
                      unless_default(field("others", &T::others)),
                      derived("judged", &T::judged),
                      derived("refused", [](const T& result) { return by_line(result.refused); }),
                      derived("labels", [](const T& result) { return by_line(result.labels); }),
                      derived("signatures",
                              [](const T& result) {
                                return result.signatures.empty() ? Json()
                                                                 : Json(by_line(result.signatures));
                              }),
                      derived("world_min", &T::world_min),
                      derived("world_max", &T::world_max)};
  }

 private:
  using Counts = std::map<std::string, int64_t>;
  static Counts by_line(const Counts& counts) {
    Counts all;
    for (const auto& [name, count] : counts) all[one_line(name)] += count;
    return all;
  }
};

template <>
struct FieldsOf<JobSummary> {
  using T = JobSummary;
  static constexpr auto fields() {
    return std::tuple{
        line("scenario", &T::scenario),   spliced(&T::setting),
        line("exactness", &T::exactness), field("cases", &T::cases, between(0, kCasesMost)),
        line("hash", &T::hash),           unless_default(field("pairs", &T::pairs))};
  }
};

template <>
struct FieldsOf<Skip> {
  static constexpr auto fields() {
    return std::tuple{line("scenario", &Skip::scenario), spliced(&Skip::setting),
                      line("reason", &Skip::reason)};
  }
};

template <>
struct FieldsOf<SlowCase> {
  using T = SlowCase;
  static constexpr auto fields() {
    return std::tuple{line("scenario", &T::scenario), spliced(&T::setting),
                      field("case", &T::number, between(1, kCasesMost)),
                      seconds("seconds", &T::took)};
  }
};

template <>
struct FieldsOf<SharedDevices> {
  using T = SharedDevices;
  static constexpr auto fields() {
    return std::tuple{line("backend", &T::backend), line("kind", &T::kind),
                      field("count", &T::count, at_least(1)),
                      field("world_least", &T::world_least, between(2, kWorldMost)),
                      field("world_most", &T::world_most, between(2, kWorldMost))};
  }
};

template <>
struct FieldsOf<Run> {
  static constexpr auto fields() {
    return std::tuple{
        line("version", &Run::version),
        line("libtorch", &Run::libtorch),
        unless_default(line("command", &Run::command)),
        field<SeedOrNull>("seed", &Run::seed),
        field<ShardOrNull>("shard", &Run::shard),
        field("shards_missing", &Run::missing_shards, between(1, kShardsMost)),
        unless_default(field("kept_going", &Run::kept_going)),
        field("cores", &Run::cores, at_least(1)),
        field("slots", &Run::slots, at_least(1)),
        field("shared_devices", &Run::shared_devices, at_most(kSharedDevicesMost, {})),
        field<AsPath>("folder", &Run::folder),
        field("exit_code", &Run::exit_code, between(0, 255)),
        field("interrupted", &Run::interrupted),
        field<CanaryInWords>("canary", &Run::canary),
        unless_default(field<EachOnOneLine>("blind", &Run::blind, at_most(kBlindMost, kLine))),
        seconds("seconds", &Run::took),
        field("jobs", &Run::jobs, at_most(kJobsMost, {})),
        field("results", &Run::results, at_most(kJobsMost, {})),
        field("not_finished", &Run::not_finished, at_most(kJobsMost, {})),
        unless_default(field("slowest", &Run::slowest, at_most(kSlowestMost, {})))};
  }
};

}  // namespace lockstep
