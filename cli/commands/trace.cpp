#include "cli/commands/commands.h"
#include "cli/exit_codes.h"
#include "cli/output/trace_output.h"
#include "cli/print.h"

namespace lockstep::cli {

namespace {

struct TraceFlags {
  std::string folder, out;
};

int trace(const TraceFlags& flags) {
  const auto run = recorded::read_recorded_run(flags.folder);
  const auto out = flags.out.empty() ? std::filesystem::path(flags.folder) / "trace.json"
                                     : std::filesystem::path(flags.out);
  print(traced(run, out));
  return kHeld;
}

}  // namespace

void add_trace(CLI::App& app, int& status) {
  auto* command = app.add_subcommand(
      "trace", "what the ranks of a recorded run sent, when, and which waited for which");
  const auto flags = std::make_shared<TraceFlags>();
  command->add_option("FOLDER", flags->folder, "the folder with the ranks' histories")
      ->required()
      ->check(not_empty())
      ->type_name("");
  value_options_of (*command)("--out", flags->out, "FILE",
                              "the trace, for Perfetto or Chrome (trace.json in FOLDER)");
  command->callback([flags, &status] { status = trace(*flags); });
}

}  // namespace lockstep::cli
