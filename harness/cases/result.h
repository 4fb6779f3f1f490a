// The results of a run: plain values, filled by a campaign, rendered by reports.
#pragma once

#include "harness/base/number_set.h"
#include "harness/cases/tier.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>

namespace lockstep {

// One of `of` machines that share a campaign. All draw the same cases; each runs those whose number
// modulo `of` is its own.
struct RunShard {
  int number = 1, of = 1;
  bool operator==(const RunShard&) const = default;
  bool has(int64_t case_number) const { return (case_number - number) % of == 0; }
  int64_t count(int64_t cases) const { return cases < number ? 0 : (cases - number) / of + 1; }
};

// Cases of a job with the same outcome: the reason for refusal, or the counts of judged cases.
struct CaseGroup {
  Verdict::Kind verdict = Verdict::Kind::pass;
  std::string reason;               // of refused ones
  int world = 0;                    // of judged ones
  std::vector<std::string> labels;  // "world 3", "values real"; of refused ones: of shares alone
  std::string signature;            // of those that do not hold, where the run kept going
  NumberSet numbers;                // from 1
};

// The facts about one field of a smallest case, from cases that differ from it in this field
// alone.
struct FieldNote {
  std::string path;    // "world.size"
  Json value;          // in the smallest case
  bool any = false;    // all others failed too
  std::string passes;  // otherwise those nearest to `value` that did not: "1", "5 and more"
  bool operator==(const FieldNote&) const = default;
};

// How a case that failed was made the smallest one with its signature.
struct Shrunk {
  // `smallest`: no step further down fails. The others ended the search before that was known.
  enum class End { smallest, time, runs, interrupted };
  Json drawn;                 // the case as it was drawn
  Json drawn_unlike_default;  // its fields that differ from a default constructed one
  int steps = 0;              // from there, those of earlier runs included
  int64_t runs = 0;           // distinct cases that were tried
  std::string tier;           // where they ran
  std::chrono::milliseconds took{};
  End end = End::smallest;
  int failed = 0, smallest_runs = 0;  // of a flaky case: how often the smallest one failed
  std::vector<FieldNote> notes;       // in the order of the fields; empty if there was no time left
};

// The case that a failing or inconclusive result stands on. Its verdict, `runs` and number are of
// the case that was drawn; where that was shrunk, `c` and everything after the number are of the
// smallest one.
struct Failure {
  Case c;
  std::string program;        // of its ranks, in plain words; empty: the scenario has none
  std::string usual_mistake;  // of the scenario
  Json unlike_default;        // the fields of the case that differ from a default constructed one
  int number = 1, of = 1;     // "case 37 of 200"
  bool archived = false;      // it failed in an earlier run, so it ran first
  std::vector<Verdict::Kind> runs;        // the verdict of each run of the case, in order
  std::filesystem::path case_file, logs;  // empty where nothing was saved or written
  int tail_rank = 0;                      // the rank to blame, whose `tail` and `stack` these are
  std::string tail;                       // its last lines of output
  std::filesystem::path tail_file;        // the source of `tail`
  std::string stack;                      // its stack, where it was late or crashed
  std::filesystem::path stack_file;       // the whole stack
  std::vector<std::string> call_sites;    // where the ranks diverge, a line each
  std::optional<Shrunk> shrunk;           // none: it was not tried
  Findings further;  // mistakes that the drawn case shows beside the first, none its consequence
};

// How often simulated worlds ran in other orders of their ranks, where cases ask for every
// schedule.
struct ScheduleCounts {
  int64_t schedules = 0, cases = 0;
  int64_t complete = 0;  // cases that have no other schedule
  int decisions_min =
      0;  // of the others: none has another one that differs in so many first choices
  bool operator==(const ScheduleCounts&) const = default;
};

// How many pairs of options a list of cases covers, of those that the values of each make.
struct PairCoverage {
  int64_t covered = 0, all = 0;
  bool operator==(const PairCoverage&) const = default;
};

// The result of one scenario in one setting.
struct Result {
  // `flaky`: the same case gave different verdicts; `skip`: every case was refused.
  enum class Kind { pass, fail, hang, crash, leak, flaky, inconclusive, skip };

  // The first case of a signature.
  struct Found {
    Kind kind = Kind::pass;
    Verdict worst;
    Failure failure;
  };

  std::string scenario, claim, exactness;
  Setting setting;
  Kind kind = Kind::pass;
  Verdict worst;                           // a pass for a pass, a refusal for a skip
  std::optional<Failure> failure;          // for all but pass and skip; absent if no case was there
  Findings remarks;                        // what is worth knowing and does not fail it
  std::vector<Found> others;               // the other signatures, where the run kept going
  int64_t judged = 0;                      // cases up to the failing one, refused ones left out
  std::map<std::string, int64_t> refused;  // number of refused cases by reason
  std::map<std::string, int64_t> labels;   // number of cases by what they had: "world 3"
  std::map<std::string, int64_t> signatures;  // where the run kept going: cases by signature
  // Judged by `labels`, among the drawn cases. Empty where the user narrowed the list, or not all
  // of it ran.
  std::vector<RequiredShare> required_shares;
  ScheduleCounts schedules;
  int world_min = 0, world_max = 0;  // among judged cases; 0 without any
  std::chrono::milliseconds took{};
  std::vector<CaseGroup> groups;  // every case counted above, by the first number of each group
};

// The cases that a run set out to judge for one result. Shards of one campaign have the same plans.
struct JobSummary {
  std::string scenario, exactness;  // the scenario's, whichever cases run
  Setting setting;
  int64_t cases = 0;  // in the whole campaign
  std::string hash;   // of all of them
  PairCoverage pairs = {};
  bool operator==(const JobSummary&) const = default;
};

// A scenario in a setting without a result, and why: a stop cut the run short.
struct Skip {
  std::string scenario;
  Setting setting;
  std::string reason;
};

// Worlds whose ranks share devices, because there are fewer of these: their verdicts are valid,
// their durations mean nothing.
struct SharedDevices {
  std::string backend;                  // the backend of the settings
  std::string kind;                     // of device: "GPU (NVIDIA H100 80GB HBM3)"
  int count = 1;                        // number of devices of the largest of these worlds
  int world_least = 2, world_most = 2;  // those that run
  bool operator==(const SharedDevices&) const = default;
};

// A case that was among those that took longest.
struct SlowCase {
  std::string scenario;
  Setting setting;
  int number = 1;  // among its scenario's cases
  std::chrono::milliseconds took{};
  bool operator==(const SlowCase&) const = default;
};
inline constexpr size_t kSlowestMost = 10;

// One invocation of `run` or `replay`.
struct Run {
  // Whether every canary came out as it must, which most do by failing: `passed` and `inconclusive`
  // mean that nothing else in this run proves anything.
  enum class Canary { not_run, failed, passed, inconclusive };

  std::string program;            // the command with which the user started this program
  std::string command = {};       // runs the same again; empty where nobody knows it
  std::string version, libtorch;  // "0.1.0", "2.11.0"
  std::optional<uint64_t> seed;   // none for a replay, which draws nothing
  int cores = 1, slots = 1;
  std::vector<Setting> settings;
  std::vector<SharedDevices> shared_devices;  // one for each backend; merged runs have more
  std::optional<RunShard> shard;              // none: the run had all cases
  bool kept_going = false;                    // every case was judged, whatever failed before it
  std::vector<int> missing_shards;            // of a merged run: the shards that were not given
  std::vector<JobSummary> jobs;
  std::vector<Result> results;  // in the order of the jobs
  std::vector<Skip> not_finished;
  std::vector<SlowCase> slowest;  // at most kSlowestMost, the slowest first
  Canary canary = Canary::not_run;
  std::vector<std::string> blind;  // the judgements whose canaries did not come out as they must
  bool interrupted = false;
  std::chrono::milliseconds took{};
  std::filesystem::path folder;  // .lockstep/runs/<time>-<id>
  int exit_code = 0;
};

// The canary of several runs is the worst of theirs.
inline Run::Canary worse(Run::Canary a, Run::Canary b) {
  for (const auto outcome : {Run::Canary::passed, Run::Canary::inconclusive, Run::Canary::failed})
    if (a == outcome || b == outcome) return outcome;
  return Run::Canary::not_run;
}

// "sampler" of the scenario "sampler.partitions_the_dataset".
inline std::string family_of(const std::string& scenario) {
  return scenario.substr(0, scenario.find('.'));
}

inline std::string_view name_of(Result::Kind kind) {
  return words::kAll<Result::Kind>.at(static_cast<size_t>(kind));
}

inline std::string_view name_of(Run::Canary canary) {
  switch (canary) {
    case Run::Canary::not_run:
      return "not run";
    case Run::Canary::failed:
      return "failed";
    case Run::Canary::passed:
      return "passed";
    case Run::Canary::inconclusive:
      return "inconclusive";
  }
  return "?";
}

// Adds a case to the slowest ones, unless they all took longer.
inline void add_slow(std::vector<SlowCase>& slowest, SlowCase one) {
  const auto shorter = [](const SlowCase& a, const SlowCase& b) { return a.took > b.took; };
  slowest.insert(std::upper_bound(slowest.begin(), slowest.end(), one, shorter), std::move(one));
  if (slowest.size() > kSlowestMost) slowest.pop_back();
}

// True of a shard in which no scenario has a case.
inline bool is_empty(const Run& run) {
  return run.results.empty() && run.not_finished.empty();
}

// True if this makes the run fail.
inline bool is_failure(Result::Kind kind) {
  return kind != Result::Kind::pass && kind != Result::Kind::inconclusive &&
         kind != Result::Kind::skip;
}

}  // namespace lockstep
