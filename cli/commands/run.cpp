#include "cli/commands/commands.h"
#include "cli/draw_progress.h"
#include "cli/known.h"
#include "cli/machine.h"
#include "cli/play.h"
#include "cli/print.h"
#include "cli/selection.h"
#include "cli/sharding.h"
#include "cli/shrinking.h"
#include "cli/usage.h"
#include "harness/core/text.h"
#include "harness/engine/canary.h"
#include "harness/engine/draw.h"
#include "harness/process/single_threaded.h"

#include <algorithm>
#include <iostream>
#include <random>
#include <unistd.h>

namespace lockstep::cli {

namespace {

constexpr int kCasesMost = 1'000'000;
constexpr int kWorldMost = 1024;
constexpr int kSlotsMost = 4096;

// As typed.
struct Flags {
  Selection selection;
  std::string tiers, backends = "gloo", subjects, worlds, seed, cases, shard, slots, timeout,
                     rendezvous_timeout, shrink_time;
  std::vector<std::string> set;
  std::string junit, json, out = ".lockstep", colour = "auto";
  bool thorough = false, stop_at_first = false, keep_going = false, no_shrink = false,
       quiet = false;
  int verbose = 0;
};

// Of each scenario, where --tier does not say where to run: every case in simulated worlds, and so
// many in worlds of processes, where a case takes ten times as long.
constexpr size_t kCasesInProcesses = 8;

bool runs_few_in_processes(const Flags& flags) {
  return flags.tiers.empty() && !flags.thorough && flags.backends == Setting().backend;
}

std::string tiers_of(const Flags& flags) {
  if (flags.thorough && !flags.tiers.empty())
    throw UsageError(
        "--thorough and --tier exclude each other: --thorough runs on sim, warm and cold");
  if (!flags.tiers.empty()) return flags.tiers;
  // Simulated worlds have a backend of their own.
  if (flags.backends != Setting().backend) return flags.thorough ? "warm,cold" : "cold";
  return flags.thorough ? "sim,warm,cold" : "sim,cold";
}

std::vector<Setting> settings_of(const Flags& flags, const Known& known) {
  std::vector<Setting> settings;
  const auto tiers = words("--tier", tiers_of(flags), names_of_tiers());
  for (const auto& tier : tiers)
    if (const std::string own = find_tier(tier)->own_backend;
        !own.empty() && flags.backends != Setting().backend)
      throw UsageError("--backend " + flags.backends + ": " + tier +
                       " worlds carry collectives in " + own + "; leave " + tier +
                       " out of --tier");
  const auto subjects = flags.subjects.empty() ? default_subject(known) : flags.subjects;
  for (const auto& subject : words("--subject", subjects, known.subjects.names()))
    for (const auto& tier : tiers)
      for (const auto& backend : words("--backend", flags.backends, names_of(known.backends))) {
        const auto setting = setting_of(subject, tier, backend);
        if (std::find(settings.begin(), settings.end(), setting) == settings.end())
          settings.push_back(setting);
      }
  return settings;
}

DrawOptions draw_options_of(const Flags& flags) {
  DrawOptions options;
  options.seed = flags.seed.empty() ? std::random_device()() : seed_value("--seed", flags.seed);
  if (!flags.cases.empty())
    options.cases = static_cast<int>(whole_number("--cases", flags.cases, 1, kCasesMost));
  if (!flags.worlds.empty())
    for (const auto& world : split(flags.worlds, ','))
      options.worlds.push_back(static_cast<int>(whole_number("--world", world, 1, kWorldMost)));
  for (const auto& assignment : flags.set) {
    if (assignment.starts_with("world.size=") && !options.worlds.empty())
      throw UsageError("--world and --set world.size exclude each other");
    const auto equals = assignment.find('=');
    if (equals == std::string::npos || equals == 0)
      throw UsageError("--set " + assignment + ": expected FIELD=VALUE");
    options.set.emplace_back(assignment.substr(0, equals), assignment.substr(equals + 1));
  }
  return options;
}

std::optional<RunShard> shard_option_of(const Flags& flags) {
  if (flags.shard.empty()) return {};
  const auto shard = shard_value(flags.shard);
  if (flags.seed.empty())
    throw UsageError("--shard " + flags.shard +
                     " needs --seed: without one every shard would draw other cases");
  return shard;
}

// Failures archived on this machine are not part of a campaign spread over several: they would
// shift the case numbers on this machine only.
std::vector<Case> archived_for(const Scenario& scenario, const Flags& flags) {
  const auto archived = archived_failures(flags.out, scenario);
  if (flags.shard.empty()) return archived;
  if (!archived.empty())
    print_to_stderr(scenario.name + ": a shard leaves out what is archived in " +
                    (std::filesystem::path(flags.out) / "failures").string() +
                    "; a run without --shard plays it");
  return {};
}

CaseList cases_of(const Scenario& scenario, const DrawOptions& options, const Flags& flags,
                  DrawProgress& progress) {
  const auto archived = archived_for(scenario, flags);
  try {
    progress.begin(scenario.name);
    return draw_cases(scenario, options, archived, [&] { progress.looked_at_a_case(); });
  } catch (const FieldError& error) {
    throw UsageError((options.set.empty() ? "" : "--set: ") + scenario.name + ": " + error.what());
  }
}

// The first field of --set that this scenario's cases do not have.
std::optional<std::string> missing_field(const Scenario& scenario, const DrawOptions& options) {
  for (const auto& [path, text] : options.set) {
    try {
      with_value(scenario.smallest().value, path, text);
    } catch (const UnknownField&) {
      return path;
    } catch (const FieldError&) {
      continue;  // it has the field; drawing reports the wrong value
    }
  }
  return {};
}

std::vector<Job> jobs_of(const Flags& flags, const Known& known, const DrawOptions& draw) {
  const auto settings = settings_of(flags, known);
  const auto shard = shard_option_of(flags).value_or(RunShard());
  std::vector<Job> jobs;
  const auto scenarios = selected(known.scenarios, flags.selection);
  DrawProgress progress(static_cast<int64_t>(scenarios.size()), flags.quiet,
                        {.unicode = locale_is_utf8()}, is_terminal(STDERR_FILENO));
  for (const auto& scenario : scenarios) {
    const auto missing = missing_field(scenario, draw);
    const auto cases = missing ? CaseList() : cases_of(scenario, draw, flags, progress);
    const auto left_out = missing ? "no field '" + *missing + "' for --set" : "";
    for (const auto& setting : settings) {
      const auto why_not = why_not_here(setting, known);
      const bool few = traits_of(setting).ranks_are_processes && runs_few_in_processes(flags);
      const auto played = few ? cases.a_few(kCasesInProcesses) : cases;
      jobs.push_back({scenario, setting, why_not.empty() ? played : CaseList(),
                      left_out.empty() ? why_not : left_out, shard});
    }
  }
  // A mistyped name is in no scenario; drawing reports the known fields.
  if (std::all_of(jobs.begin(), jobs.end(), [](const Job& job) { return !job.left_out.empty(); }))
    cases_of(jobs.front().scenario, draw, flags, progress);
  return jobs;
}

// A launched world has a fixed size: the canary that fails at any size runs at this one, the others
// if they fit.
std::vector<Job> canaries_of(const Known& known, const Setting& setting,
                             const std::optional<LaunchedPlace>& launched) {
  auto own = canary().smallest();
  if (launched) own.value["world"]["size"] = launched->size;
  std::vector<Job> jobs{{canary(), setting, std::vector{canary().parse(own.value)}}};
  for (const auto& scenario : known.scenarios) {
    if (!has_tag(scenario, "canary")) continue;
    const auto smallest = scenario.smallest();
    if (!launched || world_size(smallest) <= launched->size)
      jobs.push_back({scenario, setting, std::vector{smallest}});
  }
  return jobs;
}

CommandOptions command_options_of(const Flags& flags, uint64_t seed) {
  CommandOptions options{.seed = seed,
                         .shard = shard_option_of(flags),
                         .out = flags.out,
                         .junit = flags.junit,
                         .json = flags.json,
                         .colour = flags.colour};
  options.campaign.slots = flags.slots.empty()
                               ? default_slots()
                               : static_cast<int>(whole_number("-j", flags.slots, 1, kSlotsMost));
  if (!flags.timeout.empty()) options.campaign.deadline = time_limit("--timeout", flags.timeout);
  if (!flags.rendezvous_timeout.empty())
    options.rendezvous_timeout = time_limit("--rendezvous-timeout", flags.rendezvous_timeout);
  if (flags.stop_at_first && flags.keep_going)
    throw UsageError("-x and --keep-going exclude each other");
  if (flags.stop_at_first) options.campaign.after_failure = AfterFailure::stop_all;
  if (flags.keep_going) options.campaign.after_failure = AfterFailure::keep_going;
  words("--color", flags.colour, {"auto", "always", "never"});
  if (flags.quiet && flags.verbose > 0) throw UsageError("-q and -v exclude each other");
  options.detail = flags.quiet         ? Detail::quiet
                   : flags.verbose > 0 ? Detail::verbose
                                       : Detail::normal;
  options.show_rows = flags.verbose > 1;
  return options;
}

bool fixes_world(const DrawOptions& draw) {
  return !draw.worlds.empty() ||
         std::any_of(draw.set.begin(), draw.set.end(),
                     [](const auto& fixed) { return fixed.first == "world.size"; });
}

int run(const Flags& flags, const Known& known, SingleThreaded alone) {
  auto draw = draw_options_of(flags);
  const auto tiers = words("--tier", tiers_of(flags), names_of_tiers());
  draw.schedules = std::any_of(tiers.begin(), tiers.end(), [](const std::string& tier) {
    return find_tier(tier)->is_deterministic;
  });
  for (const auto& backend : words("--backend", flags.backends, names_of(known.backends)))
    draw.late_results |= backend_called(backend, known.backends).device != nullptr;
  auto options = command_options_of(flags, draw.seed);
  options.launched = place_for(tiers);
  if (flags.no_shrink && !flags.shrink_time.empty())
    throw UsageError("--no-shrink and --shrink-time exclude each other");
  if (!flags.no_shrink)
    options.campaign.shrink =
        shrink_options(flags.shrink_time, known, options.launched.has_value());
  if (options.launched && !fixes_world(draw)) draw.worlds = {options.launched->size};
  auto jobs = jobs_of(flags, known, draw);
  // In a setting that this machine can run: elsewhere a canary would fail for lack of a device.
  const auto played =
      std::find_if(jobs.begin(), jobs.end(), [](const Job& job) { return job.left_out.empty(); });
  auto canaries = played != jobs.end() ? canaries_of(known, played->setting, options.launched)
                                       : std::vector<Job>();
  return play(known, std::move(alone), std::move(jobs), std::move(canaries), options);
}

}  // namespace

void add_run(CLI::App& app, const Known& known, SingleThreaded& alone, int& status) {
  auto* command = app.add_subcommand("run", "run scenarios (all by default), judge, report");
  const auto flags = std::make_shared<Flags>();
  auto& selection = flags->selection;
  command->add_option("SELECT", selection.patterns, "globs, or the beginnings of names")
      ->type_name("")
      ->check(not_empty());
  const auto repeated = [&](const char* name, std::vector<std::string>& value,
                            const char* placeholder, const char* help) {
    command->add_option(name, value, help)->allow_extra_args(false)->type_name(placeholder);
  };
  const auto option = text_options_of(*command);
  repeated("--tag", selection.tags, "TAG", "scenarios with this tag");
  repeated("--not-tag", selection.not_tags, "TAG", "no scenario with this tag");
  option("--tier", flags->tiers, "TIERS",
         "where ranks live; cold: forked for each case; warm: kept for the next; sim: simulated; "
         "launched: in the processes that a launcher has started, of which rank 0 reports "
         "(every case on sim, and a few of each scenario on cold)");
  command->add_flag("--thorough", flags->thorough, "every case on sim, warm and cold");
  option("--backend", flags->backends, "BACKENDS", "what carries the collectives");
  option("--subject", flags->subjects, "SUBJECTS", "whose data parallelism is judged: a,b");
  option("--world", flags->worlds, "SIZES", "numbers of ranks: 2,3,4");
  option("--seed", flags->seed, "SEED", "the same seed draws the same cases (random)");
  option("--shard", flags->shard, "I/N",
         "plays every Nth case from the Ith; auto: as Slurm, GitLab or CircleCI says");
  option("--cases", flags->cases, "N", "cases drawn for a scenario (its own number)");
  repeated("--set", flags->set, "FIELD=VALUE", "fixes a field of every case");
  option("-j", flags->slots, "SLOTS", "ranks alive at once (twice the cores)");
  option("--timeout", flags->timeout, "SECONDS", "deadline of one case (30)");
  option("--shrink-time", flags->shrink_time, "SECONDS",
         "search for the smallest failing case of each signature (10)");
  command->add_flag("--no-shrink", flags->no_shrink, "leave failing cases as they were drawn");
  option("--rendezvous-timeout", flags->rendezvous_timeout, "SECONDS",
         "how long launched processes wait for each other (300)");
  command->add_flag("-x", flags->stop_at_first, "stop at the first failure");
  command->add_flag("--keep-going", flags->keep_going,
                    "judge every case; count the failures of each signature, tell its first");
  option("--junit", flags->junit, "FILE", "write JUnit XML");
  option("--json", flags->json, "FILE", "write everything found as JSON");
  option("--out", flags->out, "FOLDER", "where runs and failures are kept");
  option("--color", flags->colour, "WHEN", "auto, always or never");
  command->add_flag("-q", flags->quiet, "print failures and the summary only");
  command->add_flag("-v", flags->verbose,
                    "print a line for each case; -vv: also what every rank recorded");
  command->callback(
      [flags, &known, &alone, &status] { status = run(*flags, known, std::move(alone)); });
}

}  // namespace lockstep::cli
