#include "cli/main.h"

#include "cli/commands/commands.h"
#include "cli/exit_codes.h"
#include "cli/known.h"
#include "cli/run_app.h"
#include "cli/working_folder.h"
#include "harness/process/single_threaded.h"

namespace lockstep {

using namespace cli;

static int run_alone(SingleThreaded& alone, int argc, char** argv, Subjects subjects,
                     std::vector<Scenario> scenarios, Lessons lessons,
                     const std::vector<OwnCommand>& commands) {
  prepare_process();
  if (working_folder_is_gone())
    return refuse("the working folder has been deleted; change to one that is there", kUsage);
  const Known known{.program = argc > 0 ? argv[0] : "lockstep",
                    .subjects = std::move(subjects),
                    .scenarios = std::move(scenarios),
                    .demos = std::move(lessons.demos),
                    .beliefs = std::move(lessons.beliefs),
                    .course = std::move(lessons.course),
                    .arguments = std::vector<std::string>(argv + std::min(argc, 1), argv + argc)};
  int status = kHeld;
  CLI::App app(
      "Lockstep finds where data-parallel training is wrong, and shows the smallest case.");
  app.name(known.program);
  app.require_subcommand(1);
  use_own_help(app);
  app.allow_config_extras(CLI::config_extras_mode::error);  // It has all commands.
  app.footer(kExitCodesHelp);
  app.set_version_flag("--version", std::string("lockstep ") + kVersion);
  add_run(app, known, alone, status);
  add_list(app, known, status);
  add_explain(app, known, alone, status);
  add_replay(app, known, alone, status);
  add_demo(app, known, alone, status);
  add_judge(app, known.line(), judge_case_by(known), status);
  add_record(app);
  add_trace(app, status);
  add_matrix(app, known, alone, status);
  add_report(app, known.line(), status);
  add_launch(app, alone, status);
  for (const auto& add : commands) add(app, status);
  add_calibrate(app, alone, status);
  add_doctor(app, known, status);
  add_completion(app, known, status);
  add_man(app, status);
  return run_app(app, argc, argv, status);
}

int main(int argc, char** argv, Subjects subjects, std::vector<Scenario> scenarios, Lessons lessons,
         std::vector<OwnCommand> commands) {
  try {
    SingleThreaded alone;
    return run_alone(alone, argc, argv, std::move(subjects), std::move(scenarios),
                     std::move(lessons), commands);
  } catch (const TierError& error) {
    return refuse(error.what(), kUsage);
  }
}

}  // namespace lockstep
