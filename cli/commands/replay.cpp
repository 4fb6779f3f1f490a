#include "cli/case_in_file.h"
#include "cli/commands/commands.h"
#include "cli/exit_codes.h"
#include "cli/known.h"
#include "cli/print.h"
#include "cli/run/run_campaign.h"
#include "cli/shrinking.h"
#include "cli/usage.h"
#include "harness/archive/cut_off.h"
#include "harness/base/text.h"
#include "harness/process/single_threaded.h"
#include "scenarios/standalone/standalone.h"

#include <algorithm>

namespace lockstep::cli {

namespace {

struct ReplayFlags {
  std::string file, subject, tier, backend;
  CommandOptions options;
  std::optional<std::chrono::milliseconds> shrink_time;
  bool shrink = false, until_fail = false;
  bool as_python = false;
};

// The cases to replay: cases of one scenario, and where each ran; an empty setting means that the
// flags decide.
struct Replayed {
  const Scenario* scenario;
  std::vector<Case> cases;
  std::optional<Setting> setting;
};

// The cases that ran when the newest run that was cut off ended, by scenario and setting.
std::vector<Replayed> cut_off_cases(const Known& known, const std::string& out) {
  const auto cut_off = newest_cut_off(out);
  if (!cut_off)
    throw UsageError("no run in " + (std::filesystem::path(out) / "runs").string() +
                     " was cut off; replay FILE runs a case file");
  std::vector<Replayed> all;
  for (const auto& one : cut_off->cases) {
    const auto& scenario = scenario_of(known, one.c.scenario, cut_off->folder.string());
    const auto same = std::find_if(all.begin(), all.end(), [&](const Replayed& other) {
      return other.scenario == &scenario && other.setting == one.setting;
    });
    const bool is_new = same == all.end();
    auto& into = is_new ? all.emplace_back(Replayed{&scenario, {}, one.setting}) : *same;
    into.cases.push_back(scenario.parse(one.c.value));
  }
  print_to_stderr(cut_off->folder.string() + " was cut off; what ran there runs again");
  return all;
}

std::vector<Job> jobs_of(const ReplayFlags& flags, const Known& known,
                         const std::vector<Replayed>& replayed) {
  const auto given = [](const std::string& flag, const std::string& otherwise) {
    return flag.empty() ? otherwise : flag;
  };
  std::vector<Job> jobs;
  for (const auto& [scenario, cases, where] : replayed) {
    const auto was = where.value_or(Setting{default_subject(known), "cold", "gloo"});
    for (const auto& name : subjects_to_run(given(flags.subject, was.subject), known))
      for (const auto& tier : words("--tier", given(flags.tier, was.tier), names_of_tiers())) {
        const std::string own = find_tier(tier)->own_backend;
        const auto backends =
            !own.empty() && flags.backend.empty()
                ? std::vector{own}
                : words("--backend", given(flags.backend, was.backend), names_of(known.backends));
        for (const auto& backend : backends) {
          const auto setting = setting_of(name, tier, backend);
          const auto why_not = why_not_here(setting, known);
          jobs.push_back(
              {*scenario, setting, why_not.empty() ? CaseList(cases) : CaseList(), why_not});
        }
      }
  }
  return jobs;
}

int write_program(const ReplayFlags& flags, const Known& known) {
  if (flags.file.empty()) throw UsageError("--as-python needs the FILE of a case");
  const auto [scenario, saved] = read_case(known, flags.file);
  try {
    print_for_programs(scenarios::standalone::program_of(scenario, saved.c));
  } catch (const scenarios::standalone::NotWritten& error) {
    throw UsageError(std::string("--as-python: ") + error.what());
  }
  return kHeld;
}

int replay(const ReplayFlags& flags, const Known& known, SingleThreaded alone) {
  if (flags.as_python) return write_program(flags, known);
  auto options = flags.options;
  options.command = known.command();
  std::vector<Replayed> replayed;
  if (flags.file.empty()) {
    replayed = cut_off_cases(known, options.out);
    options.campaign.after_failure = AfterFailure::keep_going;
  } else {
    auto [scenario, saved] = read_case(known, flags.file);
    replayed.push_back({&scenario, {saved.c}, {}});
    options.campaign.case_file = flags.file;
    options.campaign.case_origin = saved.origin;
  }
  auto jobs = jobs_of(flags, known, replayed);
  std::vector<std::string> tiers;
  for (const auto& job : jobs)
    if (std::find(tiers.begin(), tiers.end(), job.setting.tier) == tiers.end())
      tiers.push_back(job.setting.tier);
  options.launched = place_for(tiers);
  options.campaign.slots = default_slots();
  for (const auto& one : replayed)
    for (const auto& c : one.cases)
      options.campaign.slots = std::max(options.campaign.slots, world_size(c));
  if (flags.shrink || flags.shrink_time)
    options.campaign.shrink =
        shrink_options(flags.shrink_time, known, options.launched.has_value());
  if (flags.until_fail) options.campaign.repeat = kRepeatMost;
  return run_campaign(known, std::move(alone), std::move(jobs), {}, options);
}

}  // namespace

void add_replay(CLI::App& app, const Known& known, SingleThreaded& alone, int& status) {
  auto* command = app.add_subcommand("replay", "one case again, exactly");
  const auto flags = std::make_shared<ReplayFlags>();
  auto& options = flags->options;
  auto& campaign = options.campaign;
  const auto option = value_options_of(*command);
  command->add_option("FILE", flags->file, "a case file; none: what ran when a run was killed")
      ->check(not_empty())
      ->type_name("");
  option("--subject", flags->subject, "SUBJECTS", "whose data parallelism is judged: a,b");
  option("--tier", flags->tier, "TIERS",
         "where ranks live: sim, warm, cold, launched (cold, or where the run was killed)");
  option("--backend", flags->backend, "BACKENDS", "what carries the collectives (gloo)");
  option("--timeout", campaign.time_limit, "SECONDS", "deadline of one run (30)", time_limit);
  auto* const repeat =
      option("--repeat", campaign.repeat, "N", "run it N times, as long as it passes",
             whole_numbers(1, kRepeatMost));
  command
      ->add_flag("--until-fail", flags->until_fail,
                 "run it until it fails, or --for is over; at most a million times")
      ->excludes(repeat);
  option("--for", campaign.time, "TIME", "the time for that: 90s, 10m, 1.5h", duration);
  command->add_flag("--shrink", flags->shrink,
                    "search for a smaller case that fails alike, and save it");
  option("--shrink-time", flags->shrink_time, "SECONDS", "the same, with the time for it (10)",
         time_limit);
  command->add_flag("--as-python", flags->as_python,
                    "print it as a program of PyTorch alone, for torchrun, and do not run it");
  options.files.add_to(*command);
  option("--trace", options.history.trace, "FILE",
         "a trace of its last run, or the first that failed, for Perfetto or Chrome");
  option("--history", options.history.folder, "FOLDER",
         "what each rank recorded there, as 'judge FOLDER --case FILE' reads it");
  option("--out", options.out, "FOLDER", "where runs are kept");
  add_colour(*command, options.colour);
  command->add_flag("--tee", campaign.keeps_output, "print what each rank wrote, once it has run");
  command->add_flag("-v", options.show_rows, "print what every rank recorded");
  command->callback(
      [flags, &known, &alone, &status] { status = replay(*flags, known, std::move(alone)); });
}

}  // namespace lockstep::cli
