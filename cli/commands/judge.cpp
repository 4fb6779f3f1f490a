#include "cli/commands/commands.h"
#include "cli/exit_codes.h"
#include "cli/github.h"
#include "cli/known.h"
#include "cli/machine.h"
#include "cli/play.h"
#include "harness/judge/judge_run.h"
#include "reports/json.h"
#include "reports/junit.h"
#include "reports/terminal.h"

#include <iostream>

namespace lockstep::cli {

namespace {

struct Flags {
  std::string folder, junit, json, colour = "auto";
  bool quiet = false;
};

int judge_folder(const Flags& flags, const Known& known) {
  words("--color", flags.colour, {"auto", "always", "never"});
  for (const auto& file : {flags.junit, flags.json}) check_writable(file);
  auto run = recorded::judged(recorded::read_recorded_run(flags.folder));
  run.program = known.program;
  run.version = kVersion;
  run.cores = run.slots = core_count();
  run.exit_code = exit_code_of(run);
  const auto style = style_of_stdout(flags.colour);
  const auto columns = reports::columns_for(run);
  stop_commands();
  if (!flags.quiet) std::cout << reports::headline(run, style);
  for (const auto& result : run.results)
    if (!flags.quiet || is_failure(result.kind) || result.kind == Result::Kind::inconclusive)
      std::cout << reports::result_text(result, run, columns, style);
  std::cout << reports::summary(run, style) << std::flush;
  if (on_github()) write_for_github(run);
  write_report(flags.json, reports::file_text(reports::run_json(run)));
  write_report(flags.junit, reports::junit(run));
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
  option("--color", flags->colour, "WHEN", "auto, always or never");
  command->add_flag("-q", flags->quiet, "print failures and the summary only");
  command->callback([flags, &known, &status] { status = judge_folder(*flags, known); });
}

}  // namespace lockstep::cli
