#include "cli/commands/commands.h"
#include "cli/exit_codes.h"
#include "cli/known.h"
#include "cli/print.h"
#include "cli/run/plan.h"
#include "cli/run/play.h"
#include "cli/run/run_jobs.h"
#include "cli/run/sharding.h"
#include "cli/shrinking.h"
#include "cli/usage.h"
#include "harness/campaign/cut_off.h"
#include "harness/process/single_threaded.h"
#include "reports/style.h"

#include <algorithm>

namespace lockstep::cli {

namespace {

constexpr int kSlotsMost = 4096;
constexpr int kFailuresMost = 1'000'000;

CommandOptions command_options_of(const RunFlags& flags, uint64_t seed) {
  CommandOptions options{.seed = seed,
                         .shard = shard_option_of(flags),
                         .out = flags.out,
                         .junit = flags.junit,
                         .json = flags.json,
                         .html = flags.html,
                         .history = {.trace = flags.trace},
                         .colour = flags.colour};
  options.campaign.slots = flags.slots.empty()
                               ? default_slots()
                               : static_cast<int>(whole_number("-j", flags.slots, 1, kSlotsMost));
  if (!flags.timeout.empty()) options.campaign.deadline = time_limit("--timeout", flags.timeout);
  if (!flags.rendezvous_timeout.empty())
    options.rendezvous_timeout = time_limit("--rendezvous-timeout", flags.rendezvous_timeout);
  if (!flags.json.empty() && flags.json == flags.junit)
    throw UsageError("--json and --junit name the same file");
  if (!flags.html.empty() && (flags.html == flags.junit || flags.html == flags.json))
    throw UsageError(std::string("--html and ") +
                     (flags.html == flags.json ? "--json" : "--junit") + " name the same file");
  if (flags.stop_at_first && flags.keep_going)
    throw UsageError("-x and --keep-going exclude each other");
  if (flags.keep_going && (!flags.max_fail.empty() || flags.until_fail))
    throw UsageError((flags.until_fail ? "--until-fail" : "--max-fail") +
                     std::string(" and --keep-going exclude each other"));
  if (!flags.max_fail.empty() && (flags.stop_at_first || flags.until_fail))
    throw UsageError((flags.until_fail ? "--until-fail" : "-x") +
                     std::string(" and --max-fail exclude each other"));
  if (flags.stop_at_first || flags.until_fail || !flags.max_fail.empty())
    options.campaign.after_failure = AfterFailure::stop_all;
  if (!flags.max_fail.empty())
    options.campaign.failures_most =
        static_cast<int>(whole_number("--max-fail", flags.max_fail, 1, kFailuresMost));
  if (!flags.time.empty()) options.campaign.time = duration("--for", flags.time);
  options.campaign.draws_on = draws_on(flags);
  if (!flags.repeat.empty())
    options.campaign.repeat =
        static_cast<int>(whole_number("--repeat", flags.repeat, 1, kRepeatMost));
  if (!flags.slowest.empty())
    options.slowest = static_cast<size_t>(
        whole_number("--slowest", flags.slowest, 1, static_cast<int64_t>(kSlowestMost)));
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

// A run that was killed could not say so itself.
void tell_of_cut_off(const std::filesystem::path& out, const std::string& program) {
  const auto last = newest_run(out);
  const auto cut_off = last.empty() ? std::nullopt : read_cut_off(last);
  if (!cut_off) return;
  const auto& first = cut_off->cases.front();
  const auto others = static_cast<int64_t>(cut_off->cases.size()) - 1;
  print_to_stderr("the last run was cut off while " + first.c.scenario + ", case " +
                  std::to_string(first.number) + " of " + std::to_string(first.of) + ", ran" +
                  (others > 0 ? ", and " + reports::counted(others, "other case") : "") + "; '" +
                  program + " replay' runs " + (others > 0 ? "them" : "it"));
}

int run(const RunFlags& flags, const Known& known, SingleThreaded alone) {
  auto draw = draw_options_of(flags);
  const auto tiers = words("--tier", tiers_of(flags), names_of_tiers());
  draw.schedules = std::any_of(tiers.begin(), tiers.end(), [](const std::string& tier) {
    return find_tier(tier)->is_deterministic;
  });
  for (const auto& backend : words("--backend", flags.backends, names_of(known.backends)))
    draw.late_results |= backend_called(backend, known.backends).device != nullptr;
  auto options = command_options_of(flags, draw.seed);
  options.command = known.command();
  options.launched = place_for(tiers);
  if (flags.no_shrink && !flags.shrink_time.empty())
    throw UsageError("--no-shrink and --shrink-time exclude each other");
  if (!flags.no_shrink)
    options.campaign.shrink =
        shrink_options(flags.shrink_time, known, options.launched.has_value());
  if (options.launched && !fixes_world(draw)) draw.worlds = {options.launched->size};
  auto jobs = jobs_of(flags, known, draw);
  if (flags.plan) {
    print(plan_text(jobs, options.campaign, flags.out));
    return kHeld;
  }
  tell_of_cut_off(flags.out, known.program);
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
  const auto flags = std::make_shared<RunFlags>();
  add_selection(*command, flags->selection);
  const auto repeated = [&](const char* name, std::vector<std::string>& value,
                            const char* placeholder, const char* help) {
    command->add_option(name, value, help)->allow_extra_args(false)->type_name(placeholder);
  };
  const auto option = text_options_of(*command);
  command->add_flag("--failed", flags->failed,
                    "only what failed in earlier runs and is archived in FOLDER/failures");
  option("--tier", flags->tiers, "TIERS",
         "where ranks live; cold: forked for each case; warm: kept for the next; sim: simulated; "
         "launched: in the processes that a launcher has started, of which rank 0 reports "
         "(on sim, and a few of each scenario on cold; "
         "of the whole catalogue a third of the drawn cases)");
  command->add_flag("--thorough", flags->thorough, "every case on sim, warm and cold");
  option("--backend", flags->backends, "BACKENDS", "what carries the collectives");
  option("--subject", flags->subjects, "SUBJECTS", "whose data parallelism is judged: a,b");
  option("--world", flags->worlds, "SIZES", "numbers of ranks: 2,3,4");
  option("--seed", flags->seed, "SEED", "the same seed draws the same cases (random)");
  option("--shard", flags->shard, "I/N",
         "plays every Nth case from the Ith; auto: as Slurm, GitLab or CircleCI says");
  option("--cases", flags->cases, "N", "cases drawn for a scenario (its own number)");
  option("--for", flags->time, "TIME",
         "draw on once all cases have run, until this time is over: 90s, 10m, 1.5h");
  command->add_flag("--until-fail", flags->until_fail,
                    "draw on until a case fails, or --for is over");
  option("--repeat", flags->repeat, "N", "run each case N times, as long as it passes");
  repeated("--set", flags->set, "FIELD=VALUE", "fixes a field of every case");
  option("-j", flags->slots, "SLOTS", "ranks alive at once (twice the cores)");
  option("--timeout", flags->timeout, "SECONDS", "deadline of one case (30)");
  option("--shrink-time", flags->shrink_time, "SECONDS",
         "search for the smallest failing case of each signature (10)");
  command->add_flag("--no-shrink", flags->no_shrink, "leave failing cases as they were drawn");
  option("--rendezvous-timeout", flags->rendezvous_timeout, "SECONDS",
         "how long launched processes wait for each other (300)");
  command->add_flag("-x", flags->stop_at_first, "stop at the first failure");
  option("--max-fail", flags->max_fail, "N", "stop once N scenarios have failed");
  command->add_flag("--keep-going", flags->keep_going,
                    "judge every case; count the failures of each signature, tell its first");
  option("--junit", flags->junit, "FILE", "write JUnit XML");
  option("--json", flags->json, "FILE", "write everything found as JSON");
  option("--trace", flags->trace, "FILE",
         "a trace of the first case that does not hold, or of the last, for Perfetto or Chrome");
  option("--html", flags->html, "FILE", "write a page with pictures of what happened");
  command->add_flag("--plan", flags->plan,
                    "print what would run, how many cases and how long they took before; run none");
  option("--out", flags->out, "FOLDER", "where runs and failures are kept");
  option("--color", flags->colour, "WHEN", "auto, always or never");
  option("--slowest", flags->slowest, "N", "list the N slowest cases, at most 10");
  command->add_flag("-q", flags->quiet, "print failures and the summary only");
  command->add_flag("-v", flags->verbose,
                    "print a line for each case; -vv: also what every rank recorded");
  command->callback(
      [flags, &known, &alone, &status] { status = run(*flags, known, std::move(alone)); });
}

}  // namespace lockstep::cli
