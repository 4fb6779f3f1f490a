#include "cli/run/run_jobs.h"

#include "cli/machine.h"
#include "cli/print.h"
#include "cli/run/draw_progress.h"
#include "cli/usage.h"
#include "harness/archive/archived_failures.h"
#include "harness/base/text.h"
#include "harness/canaries/canaries.h"
#include "harness/cases/groups.h"
#include "reports/style.h"

#include <algorithm>
#include <random>
#include <set>
#include <unistd.h>

namespace lockstep::cli {

namespace {

constexpr int kWorldMost = 1024;

// For each scenario, where --tier does not say where to run: every case runs in simulated worlds,
// and this many in worlds of processes, where a case takes ten times as long.
constexpr size_t kCasesInProcesses = 3;

bool runs_few_in_processes(const JobFlags& flags) {
  return flags.tiers.empty() && !flags.thorough && flags.backends == Setting().backend;
}

// The whole catalogue, and nothing said of how much: half a minute for a first verdict.
bool is_first_look(const JobFlags& flags) {
  const auto& selection = flags.selection;
  const bool is_whole = selection.patterns.empty() && selection.excluded.empty() &&
                        selection.tags.empty() && selection.not_tags.empty();
  return is_whole && runs_few_in_processes(flags) && !flags.draw.cases && !flags.shard &&
         flags.draw.worlds.empty() && flags.draw.set.empty() && !flags.failed && !draws_on(flags);
}

}  // namespace

std::string tiers_of(const JobFlags& flags) {
  if (flags.thorough && !flags.tiers.empty())
    throw UsageError(
        "--thorough and --tier exclude each other: --thorough runs on sim, warm and cold");
  if (!flags.tiers.empty()) return flags.tiers;
  // Simulated worlds have a backend of their own.
  if (flags.backends != Setting().backend) return flags.thorough ? "warm,cold" : "cold";
  return flags.thorough ? "sim,warm,cold" : "sim,cold";
}

namespace {

std::vector<Setting> settings_of(const JobFlags& flags, const Known& known) {
  std::vector<Setting> settings;
  const auto tiers = words("--tier", tiers_of(flags), names_of_tiers());
  for (const auto& tier : tiers)
    if (const std::string own = find_tier(tier)->own_backend;
        !own.empty() && flags.backends != Setting().backend)
      throw UsageError("--backend " + flags.backends + ": " + tier +
                       " worlds carry collectives in " + own + "; leave " + tier +
                       " out of --tier");
  const auto subjects = flags.subjects.empty() ? default_subject(known) : flags.subjects;
  for (const auto& subject : subjects_to_run(subjects, known))
    for (const auto& tier : tiers)
      for (const auto& backend : words("--backend", flags.backends, names_of(known.backends))) {
        const auto setting = setting_of(subject, tier, backend);
        if (std::find(settings.begin(), settings.end(), setting) == settings.end())
          settings.push_back(setting);
      }
  return settings;
}

}  // namespace

DrawOptions draw_options_of(const JobFlags& flags) {
  if (flags.failed)
    for (const auto& [flag, is_given] :
         {std::pair("--shard", flags.shard.has_value()),
          std::pair("--cases", flags.draw.cases.has_value()),
          std::pair("--for", flags.time.has_value()), std::pair("--until-fail", flags.until_fail)})
      if (is_given)
        throw UsageError(std::string("--failed and ") + flag +
                         " exclude each other: --failed runs the archived cases of this machine, "
                         "all of them");
  if (draws_on(flags) && flags.shard)
    throw UsageError(std::string("--shard and ") + (flags.until_fail ? "--until-fail" : "--for") +
                     " exclude each other: the shards of a campaign have one list of cases");
  if (flags.shard && !flags.seed)
    throw UsageError("--shard " + shard_text(*flags.shard) +
                     " needs --seed: without one every shard would draw other cases");
  auto options = flags.draw;
  options.a_third = is_first_look(flags);
  options.only_archived = flags.failed;
  options.seed = flags.seed ? *flags.seed : std::random_device()();
  std::set<std::string> paths;
  for (const auto& [path, value] : options.set) {
    if (path == "world.size" && !options.worlds.empty())
      throw UsageError("--world and --set world.size exclude each other");
    if (!paths.insert(path).second) throw UsageError("--set " + path + "=... is given twice");
  }
  return options;
}

std::pair<std::string, std::string> assignment_of(const std::string& text) {
  const auto equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    throw UsageError("--set " + text + ": expected FIELD=VALUE");
  return {text.substr(0, equals), text.substr(equals + 1)};
}

std::vector<int> worlds_of(const std::string& flag, const std::string& text) {
  std::vector<int> worlds;
  for (const auto& world : split(text, ','))
    worlds.push_back(static_cast<int>(whole_number(flag, world, 1, kWorldMost)));
  return worlds;
}

namespace {

// Failures archived on this machine are not part of a campaign spread over several: they would
// shift the case numbers on this machine only.
std::vector<Case> archived_for(const Scenario& scenario, const JobFlags& flags) {
  auto [archived, refused] = archived_failures(flags.out, scenario);
  for (const auto& why : refused) print_to_stderr(why);
  if (!flags.shard) return archived;
  if (!archived.empty())
    print_to_stderr(scenario.name + ": a shard leaves out what is archived in " +
                    (std::filesystem::path(flags.out) / "failures").string() +
                    "; a run without --shard runs it");
  return {};
}

GrowingCases cases_of(const Scenario& scenario, const DrawOptions& options,
                      const std::vector<Case>& archived, DrawProgress& progress) {
  try {
    progress.begin(scenario.name);
    return {scenario, options, archived, [&] { progress.looked_at_a_case(); }};
  } catch (const FieldError& error) {
    throw UsageError((options.set.empty() ? "" : "--set: ") + scenario.name + ": " + error.what());
  }
}

// For --failed: there is nothing to run.
[[noreturn]] void tell_that_nothing_failed(size_t archived, const JobFlags& flags) {
  const auto folder = std::filesystem::path(flags.out) / "failures";
  std::error_code error, none;
  const std::filesystem::directory_iterator entries(folder, error);
  if (error && std::filesystem::exists(folder, none))
    throw UsageError(folder.string() + ": cannot list the archived failures: " + error.message());
  if (archived == 0)
    throw NothingSelected("no failure of these scenarios is archived in " + folder.string());
  const std::string flag = flags.draw.worlds.empty() ? "--set leaves"
                           : flags.draw.set.empty()  ? "--world leaves"
                                                     : "--world and --set leave";
  throw NothingSelected(counted(archived, "failure") + " of these scenarios in " + folder.string() +
                        ", and " + flag + " out " + (archived == 1 ? "this one" : "all of them"));
}

// The fields that have this name inside another one.
std::string fields_named(const std::string& name, const Scenario& scenario) {
  std::vector<std::string> paths;
  for (const auto& leaf : scenario.leaves)
    if (leaf.path.ends_with("." + name)) paths.push_back(leaf.path);
  return paths.empty() ? "" : " (did you mean '" + joined(paths, "' or '") + "'?)";
}

// Why a field of --set cannot be fixed in this scenario's cases; nothing if all can.
std::optional<std::string> missing_field(const Scenario& scenario, const DrawOptions& options) {
  for (const auto& [path, text] : options.set) {
    if (is_among(scenario.unused, path)) return "does not use the field '" + path + "' of --set";
    try {
      with_value(scenario.smallest().value, path, text);
    } catch (const UnknownField&) {
      return "no field '" + path + "' for --set" + fields_named(path, scenario);
    } catch (const FieldError&) {
      continue;  // it has the field; drawing reports the wrong value
    }
  }
  return {};
}

}  // namespace

std::vector<Job> jobs_of(const JobFlags& flags, const Known& known, const DrawOptions& draw) {
  const auto settings = settings_of(flags, known);
  const auto shard = flags.shard.value_or(RunShard());
  std::vector<Job> jobs;
  size_t archived_in_all = 0;
  const auto scenarios = selected(known.scenarios, flags.selection);
  DrawProgress progress(static_cast<int64_t>(scenarios.size()), flags.quiet,
                        {.unicode = locale_is_utf8()}, is_terminal(STDERR_FILENO));
  for (const auto& scenario : scenarios) {
    const auto missing = missing_field(scenario, draw);
    const auto archived = archived_for(scenario, flags);
    archived_in_all += archived.size();
    auto growing = missing ? GrowingCases() : cases_of(scenario, draw, archived, progress);
    const auto& cases = growing.list();
    if (flags.failed && !missing && cases.empty()) continue;
    const auto left_out = missing.value_or("");
    for (const auto& setting : settings) {
      const auto why_not = why_not_here(setting, known);
      const bool few = traits_of(setting).ranks_are_processes && runs_few_in_processes(flags);
      const auto run = few ? cases.a_few(kCasesInProcesses) : cases;
      jobs.push_back({scenario, setting, why_not.empty() ? run : CaseList(),
                      left_out.empty() ? why_not : left_out, shard});
      jobs.back().judges_shares =
          draw.worlds.empty() && draw.set.empty() && !flags.failed && !few && !draw.a_third;
      if (draws_on(flags) && !few && !jobs.back().cases.empty())
        jobs.back().more = [growing]() mutable { return growing.grow(); };
    }
  }
  if (jobs.empty()) tell_that_nothing_failed(archived_in_all, flags);
  // A mistyped name is in no scenario; drawing reports the known fields.
  if (std::all_of(jobs.begin(), jobs.end(), [](const Job& job) { return !job.left_out.empty(); }))
    cases_of(jobs.front().scenario, draw, {}, progress);
  return jobs;
}

std::vector<Canary> canaries_of(const Known& known, const Setting& setting,
                                const std::optional<LaunchedPlace>& launched) {
  std::vector<Canary> canaries;
  if (!launched) canaries = canaries_of_simulated_worlds(setting.subject);
  canaries.push_back(canary_of_any_world(setting, launched ? launched->size : 2));
  for (const auto& scenario : known.scenarios) {
    if (!has_tag(scenario, "canary")) continue;
    const auto smallest = scenario.smallest();
    if (!launched || world_size(smallest) <= launched->size)
      canaries.push_back({scenario.name, {scenario, setting, std::vector{smallest}}});
  }
  return canaries;
}

}  // namespace lockstep::cli
