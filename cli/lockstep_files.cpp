// The program that users start. Commands that only read files run here, without loading LibTorch;
// for every other one it becomes lockstep-torch, which lies beside it.
#include "cli/command_line.h"
#include "cli/commands/commands.h"
#include "cli/exit_codes.h"
#include "cli/run_app.h"
#include "cli/working_folder.h"
#include "harness/core/result.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <unistd.h>

namespace {

using namespace lockstep::cli;

bool reads_files_alone(int argc, char** argv) {
  const std::string command = argc > 1 ? argv[1] : "";
  const bool has_case =
      std::any_of(argv + std::min(argc, 2), argv + argc, [](const char* argument) {
        const std::string text = argument;
        return text == "--case" || text.starts_with("--case=");
      });
  return command == "trace" || command == "report" || (command == "judge" && !has_case);
}

int become_whole_program(char** argv) {
  std::error_code error;
  const auto program =
      std::filesystem::read_symlink("/proc/self/exe", error).replace_filename("lockstep-torch");
  execv(program.c_str(), argv);
  return refuse(program.string() + ": cannot be started: " + std::strerror(errno), kUsage);
}

lockstep::Run no_case(const std::filesystem::path&, const std::string&) {
  return {};  // become_whole_program has it
}

}  // namespace

int main(int argc, char** argv) {
  if (!reads_files_alone(argc, argv)) return become_whole_program(argv);
  prepare_process();
  if (working_folder_is_gone())
    return refuse("the working folder has been deleted; change to one that is there", kUsage);
  const CommandLine line{argv[0], {argv + 1, argv + argc}};
  int status = kHeld;
  CLI::App app;
  app.name(line.program);
  app.require_subcommand(1);
  add_judge(app, line, no_case, status);
  add_trace(app, status);
  add_report(app, line, status);
  return run_app(app, argc, argv, status);
}
