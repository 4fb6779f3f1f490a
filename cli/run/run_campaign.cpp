#include "cli/run/run_campaign.h"

#include "cli/devices.h"
#include "cli/exit_codes.h"
#include "cli/interrupt.h"
#include "cli/machine.h"
#include "cli/output/github.h"
#include "cli/output/run_page.h"
#include "cli/print.h"
#include "cli/usage.h"
#include "harness/base/text.h"
#include "harness/worlds/about.h"
#include "harness/worlds/launched/agent.h"
#include "harness/worlds/launched/device_assignment.h"
#include "harness/worlds/launched/launched_tier.h"
#include "harness/worlds/tiers.h"
#include "scenarios/standalone/standalone.h"

#include <algorithm>
#include <limits>
#include <set>
#include <unistd.h>

namespace lockstep::cli {

namespace {

// More lanes only cost memory: each has a server process of its own.
constexpr int kLanesMost = 16;

// The scenarios that ranks must know; lanes run no others.
std::vector<Scenario> scenarios_of(const std::vector<Job>& jobs) {
  std::vector<Scenario> scenarios;
  for (const auto& job : jobs)
    if (std::none_of(scenarios.begin(), scenarios.end(),
                     [&](const auto& one) { return one.name == job.scenario.name; }))
      scenarios.push_back(job.scenario);
  return scenarios;
}

// The backends that the jobs use; ranks load no others.
KnownBackends backends_of(const Known& known, const std::vector<Job>& jobs) {
  KnownBackends used;
  for (const auto& each : known.backends)
    if (std::any_of(jobs.begin(), jobs.end(), [&](const Job& job) {
          return job.setting.backend == each.name && !job.cases.empty();
        }))
      used.push_back(each);
  return used;
}

int64_t case_count(const Job& job) {
  return job.shard.count(static_cast<int64_t>(job.cases.size()));
}

// The jobs of a run, and the head of its report.
struct CampaignJobs {
  std::vector<Job> jobs;
  std::vector<Canary> canaries;
  std::vector<SharedDevices> shared_devices = {};

  std::vector<Job> all() const {
    auto every = jobs;
    for (const auto& canary : canaries) every.push_back(canary.job);
    return every;
  }
};

// Called after the forks, when a driver may be queried.
DevicesByBackend look_at_devices(CampaignJobs& all_jobs, const Known& known) {
  const auto devices = devices_for(all_jobs.jobs, known);
  leave_out_those_without_devices(all_jobs.jobs, devices);
  std::erase_if(all_jobs.canaries, [&](const Canary& canary) {
    std::vector<Job> one{canary.job};
    leave_out_those_without_devices(one, devices);
    return one.front().cases.empty();
  });
  return devices;
}

std::vector<std::unique_ptr<Tier>> make_lanes(const Known& known, SingleThreaded alone,
                                              const CampaignJobs& all_jobs, int slots) {
  const auto all = all_jobs.all();
  ForkedOptions options;
  options.backends = backends_of(known, all);
  int64_t cases = 1;  // for the canaries, which one lane runs
  for (const auto& job : all_jobs.jobs) cases += case_count(job);
  for (const auto& job : all) {
    if (!traits_of(job.setting).ranks_are_processes) continue;
    for (size_t index = 0; index < job.cases.size(); ++index)
      if (job.shard.has(static_cast<int64_t>(index) + 1))
        options.ranks_most = std::max(options.ranks_most, job.cases.world_size(index));
  }
  int most = std::min(slots, kLanesMost);
  for (const auto& backend : options.backends)
    if (backend.worlds_most) most = std::min(most, *backend.worlds_most);
  const auto lanes = std::clamp<int64_t>(cases, 1, most);
  return forked_lanes(std::move(alone), scenarios_of(all), known.subjects, static_cast<int>(lanes),
                      options);
}

// True if it has cases and all belong to other shards.
bool has_no_case_here(const Job& job) {
  return !job.cases.empty() && case_count(job) == 0;
}

LiveOptions live_options(const std::vector<Job>& jobs, const CommandOptions& options) {
  LiveOptions live{.out = style_of_stdout(options.colour),
                   .progress = {.unicode = locale_is_utf8()},
                   .progress_is_live = is_terminal(STDERR_FILENO),
                   .detail = options.detail,
                   .show_rows = options.show_rows,
                   .slowest = options.slowest,
                   .shows_statistics = options.shows_statistics,
                   .results = static_cast<int64_t>(jobs.size()),
                   .time_limit = options.campaign.time_limit};
  for (const auto& job : jobs) live.cases += case_count(job);
  if (options.campaign.draws_on || options.campaign.repeat > 1) live.cases = 0;
  return live;
}

std::vector<Setting> settings_of(const std::vector<Job>& jobs) {
  std::vector<Setting> settings;
  for (const auto& job : jobs)
    if (std::find(settings.begin(), settings.end(), job.setting) == settings.end())
      settings.push_back(job.setting);
  return settings;
}

// A finding takes precedence over a failure to archive it.
int exit_code_of(const Run& run, const Archive& archive) {
  const int code = cli::exit_code_of(run);
  const bool found_nothing = code == kHeld || code == kAllSkipped;
  return found_nothing && !archive.loss().empty() ? kUsage : code;
}

// A run that drew its seed itself is the same again only with that seed.
std::string command_of(const CommandOptions& options) {
  const bool has_seed = options.command.find(" --seed") != std::string::npos;
  if (!options.seed || has_seed) return options.command;
  return options.command + " --seed " + reports::seed_text(*options.seed);
}

Run run_on(std::vector<std::unique_ptr<Tier>>& lanes, const Known& known, CampaignJobs all,
           const CommandOptions& options) {
  auto& jobs = all.jobs;
  use_one_intra_op_thread();
  const auto& interrupted = watch_interrupts();
  options.files.check();
  check_writable(options.history.trace);
  check_history_files(options.history);
  Archive archive(options.out);
  std::vector<JobSummary> summaries;
  for (const auto& job : jobs) summaries.push_back(summary_of(job));
  const auto settings = settings_of(jobs);
  std::erase_if(jobs, has_no_case_here);
  Run run{.program = known.program,
          .command = command_of(options),
          .version = kVersion,
          .libtorch = about_torch().version,
          .seed = options.seed,
          .cores = core_count(),
          .slots = options.campaign.slots,
          .settings = settings,
          .shared_devices = all.shared_devices,
          .shard = options.shard,
          .kept_going = options.campaign.after_failure == AfterFailure::keep_going,
          .jobs = summaries,
          .folder = archive.folder()};
  archive.append({{"event", "start"},
                  {"version", run.version},
                  {"seed", run.seed ? Json(reports::seed_text(*run.seed)) : Json()}});
  StatusRequests requests;
  auto how = live_options(jobs, options);
  how.wants_to_know = [&] { return requests.take(); };
  Live live(run, reports::columns_for(run), std::move(how));
  stop_commands();
  live.headline();
  RequestedHistory kept(live);
  Listener& listener = options.history.empty() ? static_cast<Listener&>(live) : kept;
  auto campaign = options.campaign;
  campaign.in_words = scenarios::standalone::in_words;
  Campaign(std::move(jobs), std::move(all.canaries), campaign, lanes, archive, listener)
      .run(interrupted, run);
  run.exit_code = exit_code_of(run, archive);
  for (const auto& [file, text] : archived_reports(run)) archive.write(file, text);
  archive.append({{"event", "end"}, {"exit_code", run.exit_code}});
  live.summary();
  run.exit_code = exit_code_of(run, archive);
  if (!archive.loss().empty())
    print_to_stderr("the archive of this run is not whole: " + archive.loss());
  // Last, since a full disk must not suppress the summary.
  options.files.write(run, [&] { return page_of(run, {archive.folder()}); });
  if (!options.history.empty()) print(kept.write(options.history));
  if (options.at_end) options.at_end(run);
  return run;
}

// Rank 0's sentence for the launcher.
std::string sentence_about(const Run& run) {
  const auto bad = std::count_if(run.results.begin(), run.results.end(),
                                 [](const Result& result) { return is_failure(result.kind); });
  if (run.interrupted) return "the campaign was interrupted";
  if (run.exit_code == kAllSkipped) return "everything was skipped: see rank 0's output";
  if (bad > 0)
    return std::to_string(bad) + " of " +
           std::to_string(run.results.size() + run.not_finished.size()) +
           " scenarios failed: see rank 0's output and " + run.folder.string();
  if (!run.not_finished.empty()) return run.not_finished.front().reason;
  return "the campaign did not pass: see rank 0's output and " + run.folder.string();
}

int serve(const LaunchedWorld& together, const Zygote& server) {
  const StatusRequests asked_of_all;  // Rank 0 answers.
  const auto how = serve_rank_zero(together.rank_zero, server, watch_interrupts());
  if (how.is_whole) return kHeld;
  const auto sentence = "rank " + std::to_string(together.own.rank) + ": " + how.why;
  report_failure(sentence);
  print_to_stderr(sentence);
  return kInconclusive;
}

// The ranks and hosts of the launched world, as text.
std::string processes_and_hosts(const LaunchedWorld& together) {
  std::set<std::string> hosts{together.own.host};
  for (const auto& member : together.members) hosts.insert(member.is.host);
  return counted(together.members.size() + 1, "process", "processes") + " on " +
         counted(hosts.size(), "host");
}

int run_launched(const Known& known, const SingleThreaded& alone, CampaignJobs all_jobs,
                 const CommandOptions& options) {
  auto scenarios = known.scenarios;
  for (const auto& canary : all_jobs.canaries)
    if (std::none_of(scenarios.begin(), scenarios.end(),
                     [&](const auto& one) { return one.name == canary.job.scenario.name; }))
      scenarios.push_back(canary.job.scenario);
  auto server = launched_server(alone, scenarios, known.subjects,
                                {.backends = backends_of(known, all_jobs.all())});
  const auto devices = look_at_devices(all_jobs, known);
  auto together = rendezvous_launched(*options.launched, options.rendezvous_timeout,
                                      program_of(known.scenarios, known.subjects.names()), devices);
  if (options.launched->rank != 0) return serve(together, *server);
  print_to_stderr("rendezvous of " + processes_and_hosts(together));
  const LaunchedProcesses all{
      options.launched->size, [&](int rank) -> const Handshake& {
        return rank == 0 ? together.own : together.members.at(static_cast<size_t>(rank) - 1).is;
      }};
  all_jobs.shared_devices = shared_devices_of(
      all_jobs.jobs, devices, all.size,
      [&](const auto& backend, int size) { return devices_taken(all, backend, size); });
  auto tier = std::make_unique<LaunchedTier>(LaunchedParts{
      std::move(server), std::move(together.own), std::move(together.members), interrupt});
  auto* const lane = tier.get();
  std::vector<std::unique_ptr<Tier>> lanes;
  lanes.push_back(std::move(tier));
  Run run;
  try {
    run = run_on(lanes, known, std::move(all_jobs), options);
  } catch (const std::exception& error) {
    report_failure(error.what());
    lane->end({.is_whole = false, .why = std::string("rank 0 could not go on: ") + error.what()});
    throw;
  }
  lane->end({.is_whole = true, .why = ""});
  if (run.exit_code != kHeld) report_failure(sentence_about(run));
  return run.exit_code;
}

}  // namespace

int default_slots() {
  return 2 * core_count();
}

std::optional<LaunchedPlace> place_for(const std::vector<std::string>& tiers) {
  const auto is_launched = [](const std::string& tier) { return find_tier(tier)->is_launched; };
  if (std::none_of(tiers.begin(), tiers.end(), is_launched)) return {};
  if (tiers.size() > 1)
    throw UsageError("--tier " + joined(tiers, ",") +
                     ": launched worlds are run alone, as only rank 0 could run others");
  return launched_place();
}

int run_campaign(const Known& known, SingleThreaded alone, std::vector<Job> jobs,
                 std::vector<Canary> canaries, const CommandOptions& options) {
  CampaignJobs all_jobs{std::move(jobs), std::move(canaries)};
  temporary_folder();  // Each rank needs one, and would report its absence as a case's failure.
  if (options.launched) return run_launched(known, alone, std::move(all_jobs), options);
  auto lanes = make_lanes(known, std::move(alone), all_jobs, options.campaign.slots);
  const auto devices = look_at_devices(all_jobs, known);
  all_jobs.shared_devices = shared_devices_of(
      all_jobs.jobs, devices, std::numeric_limits<int>::max(),
      [&](const auto& backend, int size) { return devices_taken_here(devices.at(backend), size); });
  return run_on(lanes, known, std::move(all_jobs), options).exit_code;
}

}  // namespace lockstep::cli
