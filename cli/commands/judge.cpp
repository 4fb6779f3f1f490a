#include "cli/commands/commands.h"
#include "cli/exit_codes.h"
#include "cli/known.h"
#include "cli/machine.h"
#include "cli/play.h"
#include "cli/run_page.h"
#include "harness/judge/judge_run.h"

namespace lockstep::cli {

namespace {

struct Flags {
  std::string folder, junit, json, html, colour = "auto";
  bool quiet = false;
};

int judge_folder(const Flags& flags, const Known& known) {
  words("--color", flags.colour, {"auto", "always", "never"});
  for (const auto& file : {flags.junit, flags.json, flags.html}) check_writable(file);
  const auto recorded = recorded::read_recorded_run(flags.folder);
  auto run = recorded::judged(recorded);
  run.command = known.command();
  run.program = known.program;
  run.version = kVersion;
  run.cores = run.slots = core_count();
  run.exit_code = exit_code_of(run);
  print_run(run, flags.colour, flags.quiet);
  write_reports(run, flags.json, flags.junit);
  if (!flags.html.empty()) write_report(flags.html, page_of(run, recorded));
  return run.exit_code;
}

}  // namespace

void add_judge(CLI::App& app, const Known& known, int& status) {
  auto* command = app.add_subcommand("judge",
                                     "recorded runs of a program of yours: were they "
                                     "data-parallel training?");
  const auto flags = std::make_shared<Flags>();
  const auto option = text_options_of(*command);
  command->add_option("FOLDER", flags->folder, "the folder with the ranks' histories")
      ->required()
      ->check(not_empty())
      ->type_name("");
  option("--junit", flags->junit, "FILE", "write JUnit XML");
  option("--json", flags->json, "FILE", "write everything found as JSON");
  option("--html", flags->html, "FILE", "write a page with pictures of what happened");
  option("--color", flags->colour, "WHEN", "auto, always or never");
  command->add_flag("-q", flags->quiet, "print failures and the summary only");
  command->callback([flags, &known, &status] { status = judge_folder(*flags, known); });
}

}  // namespace lockstep::cli
