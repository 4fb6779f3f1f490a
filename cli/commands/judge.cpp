#include "cli/command_line.h"
#include "cli/commands/commands.h"
#include "cli/exit_codes.h"
#include "cli/machine.h"
#include "cli/output/report_files.h"
#include "cli/output/run_page.h"
#include "cli/usage.h"
#include "harness/invariants/canaries/canaries.h"
#include "harness/invariants/judge_run.h"

#include <optional>

namespace lockstep::cli {

namespace {

struct JudgeFlags {
  std::string folder, against, after, case_file, allow_file, colour = "auto";
  ReportFiles files;
  std::vector<std::string> allowed;
  bool quiet = false, strict = false;
};

recorded::Allowances allowances_of(const JudgeFlags& flags) {
  recorded::Allowances allowances{.invariants = flags.allowed, .is_strict = flags.strict};
  for (const auto& name : flags.allowed) recorded::check_invariant_name(name, "--allow");
  if (!flags.allow_file.empty())
    for (auto& name : recorded::read_allowances(flags.allow_file))
      allowances.invariants.push_back(std::move(name));
  return allowances;
}

Run judged_by_invariants(const JudgeFlags& flags, const recorded::RecordedRun& recorded) {
  std::optional<recorded::OneProcess> one;
  std::optional<recorded::RecordedRun> before;
  if (!flags.against.empty()) {
    recorded::require_values(recorded, flags.folder);
    one = recorded::read_one_process(flags.against);
  }
  if (!flags.after.empty()) before = recorded::read_recorded_run(flags.after);
  return recorded::judged(recorded, one ? &*one : nullptr, allowances_of(flags),
                          before ? &*before : nullptr);
}

int judge_folder(const JudgeFlags& flags, const CommandLine& line, const JudgeCase& judge_case) {
  flags.files.check();
  std::optional<recorded::RecordedRun> recorded;
  if (flags.case_file.empty()) recorded = recorded::read_recorded_run(flags.folder);
  auto run =
      recorded ? judged_by_invariants(flags, *recorded) : judge_case(flags.folder, flags.case_file);
  run.command = line.text();
  run.program = line.program;
  run.version = kVersion;
  run.cores = run.slots = core_count();
  if (recorded) run.blind = recorded::blind_invariants();
  if (!run.blind.empty()) run.canary = Run::Canary::passed;
  run.exit_code = exit_code_of(run);
  if (recorded && run.exit_code == kHeld && !recorded::compared_what_was_asked(run))
    run.exit_code = kAllSkipped;
  print_run(run, flags.colour, flags.quiet);
  flags.files.write(run, [&] {
    return recorded ? page_of(run, *recorded) : page_of(run, std::vector<std::filesystem::path>());
  });
  return run.exit_code;
}

}  // namespace

void add_judge(CLI::App& app, const CommandLine& line, JudgeCase judge_case, int& status) {
  auto* command = app.add_subcommand("judge",
                                     "recorded runs of a program of yours: were they "
                                     "data-parallel training?");
  const auto flags = std::make_shared<JudgeFlags>();
  const auto option = value_options_of(*command);
  command->add_option("FOLDER", flags->folder, "the folder with the ranks' histories")
      ->required()
      ->check(not_empty())
      ->type_name("");
  auto* const against = option("--against", flags->against, "FOLDER",
                               "also against the same program as one process, recorded there");
  auto* const after = option("--after", flags->after, "FOLDER",
                             "also beside the run that this one resumes, recorded there");
  option("--case", flags->case_file, "FILE",
         "by the checks of this case's scenario instead, which the program has run")
      ->excludes(against)
      ->excludes(after);
  command
      ->add_option("--allow", flags->allowed,
                   "findings of this invariant are remarks, which fail nothing")
      ->type_name("INVARIANT")
      ->check(not_empty());
  option("--allow-file", flags->allow_file, "FILE", "a file of invariants to allow, one a line");
  command->add_flag("--strict", flags->strict, "remarks fail, but for invariants that are allowed");
  flags->files.add_to(*command);
  add_colour(*command, flags->colour);
  command->add_flag("-q", flags->quiet, "print failures and the summary only");
  command->callback([flags, line, judge_case = std::move(judge_case), &status] {
    status = judge_folder(*flags, line, judge_case);
  });
}

}  // namespace lockstep::cli
