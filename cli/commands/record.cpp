#include "cli/commands/commands.h"
#include "cli/output/recording.h"
#include "cli/print.h"
#include "cli/run_app.h"
#include "cli/usage.h"
#include "harness/base/characters.h"
#include "harness/process/start_program.h"

#include <cstdlib>
#include <memory>

namespace lockstep::cli {

namespace {

struct RecordFlags {
  std::string folder = "recorded", values, perturb;
};

// Slurm or mpirun may start `record` once a rank, of which the first speaks for all.
bool is_first_rank() {
  for (const char* name : {"RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK"})
    if (const char* rank = std::getenv(name); rank && *rank) return std::string(rank) == "0";
  return true;
}

// Before the command runs, since `record` becomes it and there is nobody left to speak behind it.
void say_what_is_next(const RecordFlags& flags, const std::string& program) {
  const auto folder = shell_word(flags.folder);
  const auto judge = shell_word(program) + " judge " +
                     (flags.perturb.empty() ? folder : "RANKS --against " + folder);
  print_to_stderr("records into " + folder + "; when it has ended: " + judge);
}

[[noreturn]] void record(const RecordFlags& flags, const std::vector<std::string>& command,
                         const std::string& program) {
  if (command.empty())
    throw UsageError("record: say which program: record -- torchrun --nproc-per-node 2 train.py");
  refuse_option("record", command.front());
  const auto number = [](const char* variable, const char* flag, const std::string& text) {
    if (text.empty()) return;
    ::setenv(variable, std::to_string(whole_number(flag, text, 1, 1'000'000'000)).c_str(), 1);
  };
  number("LOCKSTEP_RECORD_VALUES", "--values", flags.values);
  number("LOCKSTEP_RECORD_PERTURB", "--perturb", flags.perturb);
  const auto folder = folder_of_record("--out", flags.folder);
  ::setenv("LOCKSTEP_RECORD", folder.c_str(), 1);
  have_python_record();
  ::unsetenv("LOCKSTEP_HOST");  // cli/lockstep_files.cpp
  handle_signals_as_others_do();
  if (is_first_rank()) say_what_is_next(flags, program);
  const auto why = become_program(command.front(), command);
  throw UsageError("record: " + command.front() + " cannot be started: " + why);
}

}  // namespace

void add_record(CLI::App& app) {
  auto* command =
      app.add_subcommand("record", "runs a training of yours and records it, for judge");
  const auto flags = std::make_shared<RecordFlags>();
  const auto option = value_options_of(*command);
  option("--out", flags->folder, "FOLDER", "where each rank writes its history (recorded)");
  option("--values", flags->values, "STEPS",
         "records values too in the first steps, for judge --against");
  option("--perturb", flags->perturb, "NUMBER",
         "moves parameters by one unit in the last place, as drawn from this number");
  command->prefix_command();
  command->footer(
      "record [--out FOLDER] [--] COMMAND [ARGUMENTS]... becomes the command, such as torchrun's, "
      "and every process of Python "
      "that it starts records from its import of PyTorch on. One line on stderr says first where, "
      "and "
      "how to judge it. The exit code is the command's.");
  command->callback(
      [flags, command, &app] { record(*flags, command->remaining(), app.get_name()); });
}

}  // namespace lockstep::cli
