#include "cli/commands/commands.h"
#include "cli/exit_codes.h"
#include "cli/print.h"
#include "cli/recording.h"
#include "cli/usage.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <unistd.h>

namespace lockstep::cli {

namespace {

struct RecordFlags {
  std::string folder = "recorded", values, perturb;
};

void become(std::vector<std::string> command) {
  // What this program ignores for itself (prepare_process()), the command does not.
  for (const int ignored : {SIGPIPE, SIGXFSZ, SIGUSR1}) std::signal(ignored, SIG_DFL);
  ::unsetenv("LOCKSTEP_HOST");  // cli/lockstep_files.cpp
  std::vector<char*> arguments;
  for (auto& word : command) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::execvp(arguments.front(), arguments.data());
  throw UsageError("record: " + command.front() + " cannot be started: " + std::strerror(errno));
}

int record(const RecordFlags& flags, const std::vector<std::string>& command) {
  if (command.empty())
    throw UsageError("record: say which program: record -- torchrun --nproc-per-node 2 train.py");
  if (command.front().starts_with('-'))
    throw UsageError("record: unknown option '" + command.front() + "'");
  const auto folder = folder_of_record("--out", flags.folder);
  const auto number = [](const char* variable, const char* flag, const std::string& text) {
    if (text.empty()) return;
    ::setenv(variable, std::to_string(whole_number(flag, text, 1, 1'000'000'000)).c_str(), 1);
  };
  number("LOCKSTEP_RECORD_VALUES", "--values", flags.values);
  number("LOCKSTEP_RECORD_PERTURB", "--perturb", flags.perturb);
  have_programs_record(folder);
  become(command);
  return kUsage;
}

}  // namespace

void add_record(CLI::App& app, int& status) {
  auto* command =
      app.add_subcommand("record", "runs a training of yours and records it, for judge");
  const auto flags = std::make_shared<RecordFlags>();
  const auto option = text_options_of(*command);
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
  command->callback([flags, command, &status] { status = record(*flags, command->remaining()); });
}

}  // namespace lockstep::cli
