#include "cli/commands/commands.h"
#include "cli/output/recording.h"
#include "cli/run_app.h"
#include "cli/usage.h"
#include "harness/process/start_program.h"

#include <cstdlib>
#include <memory>

namespace lockstep::cli {

namespace {

struct RecordFlags {
  std::string folder = "recorded", values, perturb;
};

[[noreturn]] void record(const RecordFlags& flags, const std::vector<std::string>& command) {
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
      "that it starts records from its import of PyTorch on. The exit code is the command's.");
  command->callback([flags, command] { record(*flags, command->remaining()); });
}

}  // namespace lockstep::cli
