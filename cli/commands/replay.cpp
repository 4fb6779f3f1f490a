#include "cli/commands/commands.h"
#include "cli/known.h"
#include "cli/play.h"
#include "cli/shrinking.h"
#include "cli/usage.h"
#include "harness/core/text.h"
#include "harness/process/single_threaded.h"

#include <algorithm>

namespace lockstep::cli {

namespace {

struct Flags {
  std::string file, subject, tier = "cold", backend = "gloo", timeout, out = ".lockstep",
                             colour = "auto";
  std::string shrink_time;
  bool shrink = false, verbose = false;
};

// The scenario of a case file and the case as that scenario reads it.
std::pair<const Scenario&, SavedCase> read_case(const Known& known, const std::string& file) {
  const auto [c, origin] = read_case_file(file);
  std::vector<std::string> names;
  for (const auto& scenario : known.scenarios) names.push_back(scenario.name);
  const auto found = std::find(names.begin(), names.end(), c.scenario);
  if (found == names.end())
    throw UsageError(file + ": this program has no scenario '" + c.scenario + "'" +
                     did_you_mean(c.scenario, names));
  const auto& scenario = known.scenarios[static_cast<size_t>(found - names.begin())];
  try {
    return {scenario, {scenario.parse(c.value), origin}};
  } catch (const FieldError& error) {
    throw UsageError(file + ": " + error.what());
  }
}

int replay(const Flags& flags, const Known& known, SingleThreaded alone) {
  auto [scenario, saved] = read_case(known, flags.file);
  const Case& c = saved.c;
  const auto subject = flags.subject.empty() ? default_subject(known) : flags.subject;
  const auto subjects = words("--subject", subject, known.subjects.names());
  const auto tiers = words("--tier", flags.tier, names_of_tiers());
  const auto backends = words("--backend", flags.backend, names_of(known.backends));
  words("--color", flags.colour, {"auto", "always", "never"});
  CommandOptions options{.out = flags.out, .colour = flags.colour, .show_rows = flags.verbose};
  options.launched = place_for(tiers);
  options.campaign.slots = std::max(default_slots(), world_size(c));
  options.campaign.case_file = flags.file;
  options.campaign.case_origin = saved.origin;
  if (flags.shrink || !flags.shrink_time.empty())
    options.campaign.shrink =
        shrink_options(flags.shrink_time, known, options.launched.has_value());
  if (!flags.timeout.empty()) options.campaign.deadline = time_limit("--timeout", flags.timeout);
  std::vector<Job> jobs;
  for (const auto& name : subjects)
    for (const auto& tier : tiers)
      for (const auto& backend : backends) {
        const auto setting = setting_of(name, tier, backend);
        const auto why_not = why_not_here(setting, known);
        jobs.push_back({scenario, setting, why_not.empty() ? CaseList({c}) : CaseList(), why_not});
      }
  return play(known, std::move(alone), std::move(jobs), {}, options);
}

}  // namespace

void add_replay(CLI::App& app, const Known& known, SingleThreaded& alone, int& status) {
  auto* command = app.add_subcommand("replay", "one case again, exactly");
  const auto flags = std::make_shared<Flags>();
  const auto option = text_options_of(*command);
  command->add_option("FILE", flags->file, "a case file")->required()->type_name("");
  option("--subject", flags->subject, "SUBJECTS", "whose data parallelism is judged: a,b");
  option("--tier", flags->tier, "TIERS", "where ranks live: sim, warm, cold, launched");
  option("--backend", flags->backend, "BACKENDS", "what carries the collectives");
  option("--timeout", flags->timeout, "SECONDS", "deadline of one play (30)");
  command->add_flag("--shrink", flags->shrink,
                    "search for a smaller case that fails alike, and save it");
  option("--shrink-time", flags->shrink_time, "SECONDS", "the time for that (10)");
  option("--out", flags->out, "FOLDER", "where runs are kept");
  option("--color", flags->colour, "WHEN", "auto, always or never");
  command->add_flag("-v", flags->verbose, "print what every rank recorded");
  command->callback(
      [flags, &known, &alone, &status] { status = replay(*flags, known, std::move(alone)); });
}

}  // namespace lockstep::cli
