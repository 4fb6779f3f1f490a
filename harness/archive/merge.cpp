#include "harness/archive/merge.h"

#include "harness/cases/groups.h"

#include <algorithm>

namespace lockstep {

namespace {

std::string name_of(const JobSummary& summary) {
  const auto& [subject, tier, backend] = summary.setting;
  return summary.scenario + " (" + subject + ", " + tier + ", " + backend + ")";
}

[[noreturn]] void not_one_campaign(const NamedRun& a, const NamedRun& b, const std::string& why) {
  throw MergeError(a.name + " and " + b.name + " are not of one campaign: " + why);
}

std::string seed_text(const Run& run) {
  return run.seed ? "seed " + std::to_string(*run.seed) : "no seed";
}

void check_same_program(const NamedRun& a, const NamedRun& b) {
  if (a.run.version != b.run.version)
    not_one_campaign(a, b, "versions " + a.run.version + " and " + b.run.version);
  if (a.run.libtorch != b.run.libtorch)
    not_one_campaign(a, b, "LibTorch " + a.run.libtorch + " and " + b.run.libtorch);
  if (a.run.seed != b.run.seed)
    not_one_campaign(a, b, seed_text(a.run) + " and " + seed_text(b.run));
  if (a.run.kept_going != b.run.kept_going)
    not_one_campaign(a, b, "only " + (a.run.kept_going ? a : b).name + " kept going");
  if (a.run.shard.has_value() != b.run.shard.has_value())
    not_one_campaign(a, b, "one is a shard and the other a whole run");
}

// The first difference of two plans, both of which hold every case of their campaign.
void check_same_plan(const NamedRun& a, const NamedRun& b) {
  for (size_t i = 0; i < std::max(a.run.jobs.size(), b.run.jobs.size()); ++i) {
    if (i >= a.run.jobs.size() || i >= b.run.jobs.size())
      not_one_campaign(a, b,
                       "only one has " + name_of((i < a.run.jobs.size() ? a : b).run.jobs[i]));
    const auto &one = a.run.jobs[i], &other = b.run.jobs[i];
    if (one == other) continue;
    const auto name = name_of(one);
    if (name != name_of(other))
      not_one_campaign(a, b, "where one has " + name + " the other has " + name_of(other));
    if (one.cases != other.cases)
      not_one_campaign(a, b,
                       name + " has " + std::to_string(one.cases) + " cases in one and " +
                           std::to_string(other.cases) + " in the other");
    not_one_campaign(a, b, name + " has other cases, or another exactness, in the other");
  }
}

void check_shards(const std::vector<NamedRun>& runs) {
  for (size_t i = 1; i < runs.size(); ++i) {
    const auto &before = runs[i - 1], &here = runs[i];
    if (before.run.shard->of != here.run.shard->of)
      not_one_campaign(
          before, here,
          "shards " + shard_text(*before.run.shard) + " and " + shard_text(*here.run.shard));
    if (before.run.shard == here.run.shard)
      throw MergeError("shard " + shard_text(*here.run.shard) + " comes twice: " + before.name +
                       " and " + here.name);
    check_same_plan(runs.front(), here);
  }
}

std::vector<int> missing_of(const std::vector<NamedRun>& runs) {
  std::vector<int> missing;
  for (int number = 1; number <= runs.front().run.shard->of; ++number)
    if (std::none_of(runs.begin(), runs.end(),
                     [&](const NamedRun& one) { return one.run.shard->number == number; }))
      missing.push_back(number);
  return missing;
}

template <class Part>
const Part* part_of(const std::vector<Part>& parts, const JobSummary& summary) {
  for (const auto& part : parts)
    if (part.scenario == summary.scenario && part.setting == summary.setting) return &part;
  return nullptr;
}

// The shards' results of one job.
struct Parts {
  std::vector<const Result*> results;
  std::vector<const Skip*> not_finished;
};

Parts parts_of(const std::vector<NamedRun>& runs, const JobSummary& summary) {
  Parts parts;
  for (const auto& [name, run] : runs) {
    const auto* result = part_of(run.results, summary);
    const auto* skip = part_of(run.not_finished, summary);
    if (result) parts.results.push_back(result);
    if (skip) parts.not_finished.push_back(skip);
    const bool is_due = summary.cases == 0 || run.shard->count(summary.cases) > 0;
    if (is_due && !result && !skip)
      throw MergeError(name + ": shard " + shard_text(*run.shard) + " has no result for " +
                       name_of(summary) + ", of which it runs cases");
  }
  return parts;
}

// In order of precedence; flaky results failed at first.
int rank_of(const Result& result) {
  if (is_failure(result.kind)) return 0;
  if (result.kind == Result::Kind::inconclusive) return 1;
  return result.kind == Result::Kind::pass ? 2 : 3;
}

int last_number(const Result& result) {
  int last = 0;
  for (const auto& group : result.groups) last = std::max(last, group.numbers.last());
  return last;
}

// The result that a whole run would have reported: of failures and of inconclusive ones the first
// by number, of skips the last.
const Result& deciding(const std::vector<const Result*>& results) {
  return **std::min_element(results.begin(), results.end(), [](const Result* a, const Result* b) {
    if (rank_of(*a) != rank_of(*b)) return rank_of(*a) < rank_of(*b);
    if (a->failure && b->failure) return a->failure->number < b->failure->number;
    return rank_of(*a) == 3 && last_number(*a) > last_number(*b);
  });
}

// Returns for each signature the case with the lowest number, except the deciding one.
std::vector<Result::Found> others_of(const std::vector<const Result*>& results,
                                     const Result& first) {
  std::map<std::string, Result::Found> by_name;
  for (const auto* result : results)
    for (const auto& one : by_signature(*result)) {
      if (!one.failure || one.worst.signature() == first.worst.signature()) continue;
      Result::Found found{one.kind, one.worst, *one.failure};
      auto& known = by_name.try_emplace(one.worst.signature(), found).first->second;
      if (found.failure.number < known.failure.number) known = std::move(found);
    }
  std::vector<Result::Found> others;
  for (auto& [signature, found] : by_name) others.push_back(std::move(found));
  std::sort(others.begin(), others.end(), comes_before);
  return others;
}

// Shares are those of the whole list: `all_shards` are there.
Result merged_result(const std::vector<const Result*>& results, const JobSummary& summary,
                     bool kept_going, bool all_shards) {
  Result out = deciding(results);
  out.others = kept_going ? others_of(results, out) : std::vector<Result::Found>();
  out.groups.clear();
  out.took = {};
  out.schedules = {};
  for (const auto* result : results) {
    out.took += result->took;
    add(out.schedules, result->schedules);
    if (result->required_shares.empty()) out.required_shares.clear();
    for (const auto& group : result->groups) add(out.groups, group);
  }
  if (out.failure && is_failure(out.kind) && !kept_going)
    cut_after(out.groups, out.failure->number);
  if (out.groups.empty()) return out;  // Cases that were left out, or did not exist, count as none.
  out.judged = 0;
  out.world_min = out.world_max = 0;
  out.refused.clear();
  out.labels.clear();
  out.signatures.clear();
  count_groups(out);
  out.exactness = claimed(summary.exactness, out);
  if (!all_shards) out.required_shares.clear();
  judge_shares(out);
  return out;
}

void merge_part(const std::vector<NamedRun>& runs, const JobSummary& summary, Run& out) {
  const auto parts = parts_of(runs, summary);
  const bool failed = std::any_of(parts.results.begin(), parts.results.end(),
                                  [](const Result* one) { return is_failure(one->kind); });
  if (!parts.not_finished.empty() && !failed) {
    out.not_finished.push_back(*parts.not_finished.front());
  } else if (!parts.results.empty()) {
    out.results.push_back(
        merged_result(parts.results, summary, out.kept_going, out.missing_shards.empty()));
  } else {
    out.not_finished.push_back(
        {summary.scenario, summary.setting, "the shards with its cases are missing"});
  }
}

// The fields that concern the whole run.
void merge_heads(const std::vector<NamedRun>& runs, Run& out) {
  for (const auto& [name, run] : runs) {
    out.cores = std::max(out.cores, run.cores);
    out.slots = std::max(out.slots, run.slots);
    out.canary = worse(out.canary, run.canary);
    for (const auto& judgement : run.blind)
      if (std::find(out.blind.begin(), out.blind.end(), judgement) == out.blind.end())
        out.blind.push_back(judgement);
    out.interrupted = out.interrupted || run.interrupted;
    out.took += run.took;
    for (const auto& slow : run.slowest) add_slow(out.slowest, slow);
    for (const auto& setting : run.settings)
      if (std::find(out.settings.begin(), out.settings.end(), setting) == out.settings.end())
        out.settings.push_back(setting);
    for (const auto& shared : run.shared_devices)
      if (std::find(out.shared_devices.begin(), out.shared_devices.end(), shared) ==
          out.shared_devices.end())
        out.shared_devices.push_back(shared);
  }
}

void append_whole_run(const NamedRun& from, const std::vector<NamedRun>& before, Run& out) {
  for (const auto& summary : from.run.jobs)
    for (const auto& other : before)
      if (part_of(other.run.jobs, summary))
        throw MergeError(other.name + " and " + from.name + " both have " + name_of(summary) +
                         "; only shards of a campaign (run --shard) may have the same");
  const auto append = [](auto& all, const auto& more) {
    all.insert(all.end(), more.begin(), more.end());
  };
  append(out.jobs, from.run.jobs);
  append(out.results, from.run.results);
  append(out.not_finished, from.run.not_finished);
  append(out.missing_shards, from.run.missing_shards);
  std::sort(out.missing_shards.begin(), out.missing_shards.end());
  const auto again = std::unique(out.missing_shards.begin(), out.missing_shards.end());
  out.missing_shards.erase(again, out.missing_shards.end());
}

}  // namespace

Run merged(std::vector<NamedRun> runs) {
  if (runs.empty()) throw MergeError("there is no run to report");
  for (const auto& run : runs) check_same_program(runs.front(), run);
  const auto& first = runs.front().run;
  Run out{.version = first.version,
          .libtorch = first.libtorch,
          .seed = first.seed,
          .kept_going = first.kept_going};
  merge_heads(runs, out);
  if (!first.shard) {
    if (runs.size() == 1) out.command = first.command;
    for (auto run = runs.begin(); run != runs.end(); ++run)
      append_whole_run(*run, {runs.begin(), run}, out);
    return out;
  }
  std::sort(runs.begin(), runs.end(), [](const NamedRun& a, const NamedRun& b) {
    return a.run.shard->number < b.run.shard->number;
  });
  check_shards(runs);
  out.jobs = runs.front().run.jobs;
  out.missing_shards = missing_of(runs);
  for (const auto& summary : out.jobs) merge_part(runs, summary, out);
  return out;
}

}  // namespace lockstep
