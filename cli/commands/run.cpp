#include "cli/commands/commands.h"
#include "cli/exit_codes.h"
#include "cli/known.h"
#include "cli/print.h"
#include "cli/run/dry_run.h"
#include "cli/run/run_campaign.h"
#include "cli/run/run_jobs.h"
#include "cli/run/sharding.h"
#include "cli/shrinking.h"
#include "cli/usage.h"
#include "harness/archive/cut_off.h"
#include "harness/base/text.h"
#include "harness/process/single_threaded.h"
#include "reports/style.h"

#include <algorithm>

namespace lockstep::cli {

namespace {

constexpr int kSlotsMost = 4096;
constexpr int kFailuresMost = 1'000'000;

struct RunFlags {
  JobFlags jobs;
  CommandOptions options;
  std::optional<std::chrono::milliseconds> shrink_time;
  std::optional<int> slots, max_fail;
  bool dry_run = false, stop_at_first = false, keep_going = false, no_shrink = false;
  int verbose = 0;
};

CommandOptions command_options_of(const RunFlags& flags, uint64_t seed) {
  CommandOptions options = flags.options;
  auto& campaign = options.campaign;
  options.seed = seed;
  options.shard = flags.jobs.shard;
  options.out = flags.jobs.out;
  campaign.slots = flags.slots.value_or(default_slots());
  campaign.time = flags.jobs.time;
  campaign.draws_on = draws_on(flags.jobs);
  campaign.failures_most = flags.max_fail.value_or(1);
  if (flags.stop_at_first || flags.jobs.until_fail || flags.max_fail)
    campaign.after_failure = AfterFailure::stop_all;
  if (flags.keep_going) campaign.after_failure = AfterFailure::keep_going;
  options.detail = flags.jobs.quiet    ? Detail::quiet
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

// A run that was killed could not say so itself.
void tell_of_cut_off(const std::filesystem::path& out, const std::string& program) {
  const auto last = newest_run(out);
  const auto cut_off = last.empty() ? std::nullopt : read_cut_off(last);
  if (!cut_off) return;
  const auto& first = cut_off->cases.front();
  const auto others = static_cast<int64_t>(cut_off->cases.size()) - 1;
  print_to_stderr("the last run was cut off while " + first.c.scenario + ", case " +
                  std::to_string(first.number) + " of " + std::to_string(first.of) + ", ran" +
                  (others > 0 ? ", and " + counted(others, "other case") : "") + "; '" + program +
                  " replay' runs " + (others > 0 ? "them" : "it"));
}

int run(const RunFlags& flags, const Known& known, SingleThreaded alone) {
  auto draw = draw_options_of(flags.jobs);
  const auto tiers = words("--tier", tiers_of(flags.jobs), names_of_tiers());
  draw.schedules = draw.lags = std::any_of(tiers.begin(), tiers.end(), [](const std::string& tier) {
    return find_tier(tier)->is_deterministic;
  });
  for (const auto& backend : words("--backend", flags.jobs.backends, names_of(known.backends)))
    draw.late_results |= backend_called(backend, known.backends).device != nullptr;
  auto options = command_options_of(flags, draw.seed);
  options.command = known.command();
  options.launched = place_for(tiers);
  if (!flags.no_shrink)
    options.campaign.shrink =
        shrink_options(flags.shrink_time, known, options.launched.has_value());
  if (options.launched && !fixes_world(draw)) draw.worlds = {options.launched->size};
  auto jobs = jobs_of(flags.jobs, known, draw);
  if (flags.dry_run && text_is_on_stderr())
    throw UsageError("--dry-run and --format exclude each other");
  if (flags.dry_run) {
    print(dry_run_text(jobs, options.campaign, options.out));
    return kHeld;
  }
  tell_of_cut_off(options.out, known.program);
  // In a setting that this machine can run: elsewhere a canary would fail for lack of a device.
  const auto first =
      std::find_if(jobs.begin(), jobs.end(), [](const Job& job) { return job.left_out.empty(); });
  auto canaries = first != jobs.end() ? canaries_of(known, first->setting, options.launched)
                                      : std::vector<Canary>();
  return run_campaign(known, std::move(alone), std::move(jobs), std::move(canaries), options);
}

}  // namespace

void add_run(CLI::App& app, const Known& known, SingleThreaded& alone, int& status) {
  auto* command = app.add_subcommand("run", "run scenarios (all by default), judge, report");
  const auto flags = std::make_shared<RunFlags>();
  auto& jobs = flags->jobs;
  auto& options = flags->options;
  auto& campaign = options.campaign;
  add_selection(*command, jobs.selection);
  const auto option = value_options_of(*command);
  command->add_flag("--failed", jobs.failed,
                    "only what failed in earlier runs and is archived in FOLDER/failures");
  option("--tier", jobs.tiers, "TIERS",
         "where ranks live; cold: forked for each case; warm: kept for the next; sim: simulated; "
         "launched: in the processes that a launcher has started, of which rank 0 reports "
         "(on sim, and a few of each scenario on cold; "
         "of the whole catalogue a third of the drawn cases)");
  command->add_flag("--thorough", jobs.thorough, "every case on sim, warm and cold");
  option("--backend", jobs.backends, "BACKENDS", "what carries the collectives");
  option("--subject", jobs.subjects, "SUBJECTS", "whose data parallelism is judged: a,b");
  option("--world", jobs.draw.worlds, "SIZES", "numbers of ranks: 2,3,4", worlds_of);
  option("--seed", jobs.seed, "SEED", "the same seed draws the same cases (random)", seed_value);
  option("--shard", jobs.shard, "I/N",
         "runs every Nth case from the Ith; auto: as Slurm, GitLab or CircleCI says",
         [](const std::string&, const std::string& text) { return shard_value(text); });
  option("--cases", jobs.draw.cases, "N", "cases drawn for a scenario (its own number)",
         whole_numbers(1, kCasesMost));
  option("--for", jobs.time, "TIME",
         "draw on once all cases have run, until this time is over: 90s, 10m, 1.5h", duration);
  auto* const until_fail = command->add_flag("--until-fail", jobs.until_fail,
                                             "draw on until a case fails, or --for is over");
  option("--repeat", campaign.repeat, "N", "run each case N times, as long as it passes",
         whole_numbers(1, kRepeatMost));
  command
      ->add_option_function<std::vector<std::string>>(
          "--set",
          [&jobs](const std::vector<std::string>& all) {
            jobs.draw.set.clear();
            for (const auto& each : all) jobs.draw.set.push_back(assignment_of(each));
          },
          "fixes a field of every case")
      ->allow_extra_args(false)
      ->type_name("FIELD=VALUE");
  option("-j", flags->slots, "SLOTS", "ranks alive at once (twice the cores)",
         whole_numbers(1, kSlotsMost));
  option("--timeout", campaign.time_limit, "SECONDS", "deadline of one case (30)", time_limit);
  auto* const shrink_time =
      option("--shrink-time", flags->shrink_time, "SECONDS",
             "search for the smallest failing case of each signature (10)", time_limit);
  command->add_flag("--no-shrink", flags->no_shrink, "leave failing cases as they were drawn")
      ->excludes(shrink_time);
  option("--rendezvous-timeout", options.rendezvous_timeout, "SECONDS",
         "how long launched processes wait for each other (300)", time_limit);
  auto* const stop_at_first =
      command->add_flag("-x", flags->stop_at_first, "stop at the first failure");
  auto* const max_fail =
      option("--max-fail", flags->max_fail, "N", "stop once N scenarios have failed",
             whole_numbers(1, kFailuresMost))
          ->excludes(stop_at_first)
          ->excludes(until_fail);
  command
      ->add_flag("--keep-going", flags->keep_going,
                 "judge every case; count the failures of each signature, tell its first")
      ->excludes(stop_at_first)
      ->excludes(max_fail)
      ->excludes(until_fail);
  options.files.add_to(*command);
  option("--trace", options.history.trace, "FILE",
         "a trace of the first case that does not hold, or of the last, for Perfetto or Chrome");
  command->add_flag("--dry-run", flags->dry_run,
                    "print what would run, how many cases and how long they took before; run none");
  option("--out", jobs.out, "FOLDER", "where runs and failures are kept");
  add_colour(*command, options.colour);
  option("--slowest", options.slowest, "N", "list the N slowest cases, at most 10",
         whole_numbers(size_t{1}, kSlowestMost));
  command->add_flag("--stats", options.shows_statistics,
                    "how many cases of each required kind, and pairs of options, were drawn");
  command->add_flag("-q", jobs.quiet, "print failures and the summary only")
      ->excludes(command->add_flag(
          "-v", flags->verbose, "print a line for each case; -vv: also what every rank recorded"));
  command->callback(
      [flags, &known, &alone, &status] { status = run(*flags, known, std::move(alone)); });
}

}  // namespace lockstep::cli
