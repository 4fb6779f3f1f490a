#include "cli/command_line.h"
#include "cli/commands/commands.h"
#include "cli/exit_codes.h"
#include "cli/output/report_files.h"
#include "cli/output/run_page.h"
#include "cli/usage.h"
#include "harness/archive/merge.h"
#include "reports/run_file.h"

#include <algorithm>

namespace lockstep::cli {

namespace {

namespace fs = std::filesystem;

struct ReportFlags {
  std::vector<std::string> paths;
  ReportFiles files;
  std::string colour = "auto";
  bool partial = false, quiet = false;
};

// The latest run of a folder, by name, since copying a folder may lose the link.
fs::path latest_of(const fs::path& runs) {
  std::error_code none;
  if (fs::exists(runs / "latest" / "run.json", none)) return runs / "latest" / "run.json";
  fs::path last;
  for (const auto& entry : fs::directory_iterator(runs, none))
    if (const auto file = entry.path() / "run.json"; fs::exists(file, none))
      last = std::max(last, file);
  return last;
}

fs::path run_file_of(const fs::path& path) {
  std::error_code none;
  if (!fs::is_directory(path, none)) return path;
  if (fs::exists(path / "run.json", none)) return path / "run.json";
  const auto file = latest_of(path / "runs");
  if (file.empty())
    throw UsageError(path.string() +
                     ": holds no run; expected a run.json in it, or in a folder of runs/");
  return file;
}

Run merged_run(const ReportFlags& flags) {
  std::vector<NamedRun> runs;
  for (const auto& path : flags.paths) {
    const auto file = run_file_of(path);
    runs.push_back({file.string(), reports::read_run_file(file)});
  }
  try {
    return merged(std::move(runs));
  } catch (const MergeError& error) {
    throw UsageError(error.what());
  }
}

std::vector<fs::path> folders_of(const ReportFlags& flags) {
  std::vector<fs::path> folders;
  for (const auto& path : flags.paths) folders.push_back(run_file_of(path).parent_path());
  return folders;
}

// The verdicts of a missing shard's cases are unknown.
int exit_code_of(const Run& run, const ReportFlags& flags) {
  const int code = cli::exit_code_of(run);
  const bool unknown = !run.missing_shards.empty() && !flags.partial;
  return unknown && (code == kHeld || code == kAllSkipped) ? kInconclusive : code;
}

int report(const ReportFlags& flags, const CommandLine& line) {
  auto run = merged_run(flags);
  flags.files.check();
  run.program = line.program;
  if (run.command.empty()) run.command = line.text();
  run.exit_code = exit_code_of(run, flags);
  print_run(run, flags.colour, flags.quiet);
  flags.files.write(run, [&] { return page_of(run, folders_of(flags)); });
  return run.exit_code;
}

}  // namespace

void add_report(CLI::App& app, const CommandLine& line, int& status) {
  auto* command =
      app.add_subcommand("report", "one report of several runs: the shards of a campaign, say");
  const auto flags = std::make_shared<ReportFlags>();
  command
      ->add_option("RUN", flags->paths, "files run.json, or folders in which the latest is meant")
      ->required()
      ->type_name("");
  command->add_flag("--partial", flags->partial, "missing shards leave the exit code alone");
  flags->files.add_to(*command);
  add_colour(*command, flags->colour);
  command->add_flag("-q", flags->quiet, "print failures and the summary only");
  command->callback([flags, line, &status] { status = report(*flags, line); });
}

}  // namespace lockstep::cli
