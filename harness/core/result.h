// What a run found: plain values, filled by the engine, rendered by reports.
#pragma once

#include "harness/core/tier.h"

#include <chrono>
#include <filesystem>
#include <map>

namespace lockstep {

// One of `of` machines that share a campaign. All draw the same cases; this one plays those whose
// number modulo `of` is its own.
struct RunShard {
  int number = 1, of = 1;
  bool operator==(const RunShard&) const = default;
  bool plays(int64_t case_number) const { return (case_number - number) % of == 0; }
  int64_t count(int64_t cases) const { return cases < number ? 0 : (cases - number) / of + 1; }
};

// Cases of a job that came to the same: what refused them, or what the judged ones count as.
struct CaseGroup {
  Verdict::Kind verdict = Verdict::Kind::pass;
  std::string reason;               // of refused ones, which count as nothing else
  int world = 0;                    // of judged ones
  std::vector<std::string> labels;  // of judged ones: "world 3", "values real"
  std::vector<int> numbers;         // ascending, from 1
};

// The case that a failing or inconclusive result stands on.
struct Failure {
  Case c;
  Json unlike_default;     // the fields of the case that differ from a default constructed one
  int number = 1, of = 1;  // "case 37 of 200"
  std::vector<Verdict::Kind> plays;       // what each play of the case gave, the first one first
  std::filesystem::path case_file, logs;  // empty where nothing was saved or written
  int tail_rank = 0;                      // the rank whose output `tail` ends
  std::string tail;                       // the last lines that rank wrote, or where it stood
  std::filesystem::path tail_file;        // where `tail` is from
  std::vector<std::string> call_sites;    // of what the ranks issued where they part, a line each
};

// The result of one scenario in one setting.
struct Result {
  // `flaky`: the same case gave different verdicts; `skip`: every case was refused.
  enum class Kind { pass, fail, hang, crash, leak, flaky, inconclusive, skip };

  std::string scenario, claim, exactness;
  Setting setting;
  Kind kind = Kind::pass;
  Verdict worst;                           // a pass for a pass, a refusal for a skip
  std::optional<Failure> failure;          // for all but pass and skip; absent if no case was there
  int64_t judged = 0;                      // cases up to the failing one, refused ones left out
  std::map<std::string, int64_t> refused;  // number of refused cases by reason
  std::map<std::string, int64_t> labels;   // number of judged cases by what they had: "world 3"
  int world_min = 0, world_max = 0;        // among judged cases; 0 where none was
  std::chrono::milliseconds took{};
  std::vector<CaseGroup> groups;  // every case counted above, by the first number of each group
};

// What a run set out to do for one result. Shards of one campaign have the same plans.
struct Planned {
  std::string scenario, exactness;  // the whole claim, whatever cases come
  Setting setting;
  int64_t cases = 0;  // in the whole campaign
  std::string hash;   // of all of them
  bool operator==(const Planned&) const = default;
};

// A scenario in a setting that has no result, and why: a stop cut it short.
struct Skip {
  std::string scenario;
  Setting setting;
  std::string reason;
};

// Worlds whose ranks share devices, as there are fewer of these: what they show is as right as
// ever, and how long they take says nothing.
struct SharedDevices {
  std::string backend;                  // of the settings that are meant
  std::string kind;                     // of device: "GPU (NVIDIA H100 80GB HBM3)"
  int count = 1;                        // of devices that the largest of these worlds has
  int world_least = 2, world_most = 2;  // those that are played
  bool operator==(const SharedDevices&) const = default;
};

// One invocation of `run` or `replay`.
struct Run {
  // Whether the scenario that must fail did: `passed` and `inconclusive` mean that nothing else
  // in this run proves anything.
  enum class Canary { not_played, failed, passed, inconclusive };

  std::string program;            // what the user typed to start this program
  std::string version, libtorch;  // "0.1.0", "2.11.0"
  std::optional<uint64_t> seed;   // none for a replay: nothing was drawn
  int cores = 1, slots = 1;
  std::vector<Setting> settings;
  std::vector<SharedDevices> shared_devices;  // one a backend, of merged runs more
  std::optional<RunShard> shard;              // none: all cases were this run's own
  std::vector<int> missing_shards;  // of a run that was put together: numbers of those not there
  std::vector<Planned> plan;
  std::vector<Result> results;  // in the order of the plan
  std::vector<Skip> not_finished;
  Canary canary = Canary::not_played;
  bool interrupted = false;
  std::chrono::milliseconds took{};
  std::filesystem::path folder;  // .lockstep/runs/<time>-<id>
  int exit_code = 0;
};

// The canary of several runs is the worst of theirs.
inline Run::Canary worse(Run::Canary a, Run::Canary b) {
  for (const auto outcome : {Run::Canary::passed, Run::Canary::inconclusive, Run::Canary::failed})
    if (a == outcome || b == outcome) return outcome;
  return Run::Canary::not_played;
}

inline std::string_view name_of(Result::Kind kind) {
  switch (kind) {
    case Result::Kind::pass:
      return "pass";
    case Result::Kind::fail:
      return "fail";
    case Result::Kind::hang:
      return "hang";
    case Result::Kind::crash:
      return "crash";
    case Result::Kind::leak:
      return "leak";
    case Result::Kind::flaky:
      return "flaky";
    case Result::Kind::inconclusive:
      return "inconclusive";
    case Result::Kind::skip:
      return "skip";
  }
  return "?";
}

inline std::string_view name_of(Run::Canary canary) {
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

// True of a shard in which no scenario has a case.
inline bool is_empty(const Run& run) {
  return run.results.empty() && run.not_finished.empty();
}

// True for what turns a run red.
inline bool is_failure(Result::Kind kind) {
  return kind != Result::Kind::pass && kind != Result::Kind::inconclusive &&
         kind != Result::Kind::skip;
}

}  // namespace lockstep
