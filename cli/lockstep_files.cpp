// The program that users start. Commands that only read files run here, without loading LibTorch;
// for every other one it becomes lockstep-torch, which lies beside it, or in the package for Python
// the interpreter that started it, which loads the whole program as a library.
#include "cli/command_line.h"
#include "cli/commands/commands.h"
#include "cli/exit_codes.h"
#include "cli/run_app.h"
#include "cli/working_folder.h"
#include "harness/cases/result.h"
#include "harness/process/start_program.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <utility>

namespace {

using namespace lockstep::cli;

bool reads_files_alone(int argc, char** argv) {
  const std::string command = argc > 1 ? argv[1] : "";
  const bool has_case =
      std::any_of(argv + std::min(argc, 2), argv + argc, [](const char* argument) {
        const std::string text = argument;
        return text == "--case" || text.starts_with("--case=");
      });
  return command == "trace" || command == "report" || command == "record" ||
         (command == "judge" && !has_case);
}

int become(const std::string& program, std::vector<std::string> words) {
  const auto why = lockstep::become_program(program, std::move(words));
  return refuse(program + ": cannot be started: " + why, kUsage);
}

// The program's functions that take the place of libc's are found only before libc's own. The
// library finds LibTorch beside the package; _host.py finds it where PyTorch is elsewhere.
int become_hosted(const std::string& interpreter, const std::filesystem::path& package,
                  const std::vector<std::string>& words) {
  const auto library = (package / "lib" / "liblockstep.so").string();
  if (std::filesystem::exists(package.parent_path() / "torch" / "lib"))
    lockstep::put_first("LD_PRELOAD", library);
  setenv("PYTHONHASHSEED", "0", /*overwrite=*/0);  // The same case gives the same history.
  std::vector<std::string> all{interpreter, (package / "_host.py").string(), library};
  all.insert(all.end(), words.begin(), words.end());
  return become(interpreter, std::move(all));
}

int become_whole_program(const std::vector<std::string>& words) {
  std::error_code error;
  const auto folder = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  if (const char* const interpreter = std::getenv("LOCKSTEP_HOST"))
    return become_hosted(interpreter, folder.parent_path(), words);
  return become((folder / "lockstep-torch").string(), words);
}

lockstep::Run no_case(const std::filesystem::path&, const std::string&) {
  return {};  // become_whole_program has it
}

}  // namespace

int main(int argc, char** argv) {
  if (!reads_files_alone(argc, argv)) return become_whole_program({argv, argv + argc});
  prepare_process();
  if (working_folder_is_gone())
    return refuse("the working folder has been deleted; change to one that is there", kUsage);
  const CommandLine line{argv[0], {argv + 1, argv + argc}};
  int status = kHeld;
  CLI::App app;
  app.name(line.program);
  app.require_subcommand(1);
  use_own_help(app);
  add_judge(app, line, no_case, status);
  add_record(app);
  add_trace(app, status);
  add_report(app, line, status);
  return run_app(app, argc, argv, status);
}
