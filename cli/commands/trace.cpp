#include "cli/commands/commands.h"
#include "cli/exit_codes.h"
#include "cli/print.h"
#include "cli/usage.h"
#include "harness/core/text.h"
#include "harness/judge/timeline.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <unistd.h>

namespace lockstep::cli {

namespace {

struct Flags {
  std::string folder, out;
};

// Written beside and renamed, so that a link in a stranger's folder is replaced and not followed.
void write_beside(const std::filesystem::path& path, const recorded::RecordedRun& run,
                  const recorded::Timeline& timeline) {
  auto name = path.string() + ".XXXXXX";
  const int descriptor = ::mkstemp(name.data());
  if (descriptor < 0)
    throw UsageError(path.string() + ": cannot be written: " + std::strerror(errno));
  ::close(descriptor);
  std::ofstream out(name, std::ios::binary | std::ios::trunc);
  recorded::write_trace(run, timeline, out);
  errno = 0;
  out.close();
  if (!out || ::rename(name.c_str(), path.c_str()) != 0) {
    const int why = errno;
    ::unlink(name.c_str());
    throw UsageError(path.string() + ": cannot be written: " + std::strerror(why));
  }
}

int trace(const Flags& flags) {
  const auto run = recorded::read_recorded_run(flags.folder);
  const auto timeline = recorded::timeline_of(run);
  const auto out = flags.out.empty() ? std::filesystem::path(flags.folder) / "trace.json"
                                     : std::filesystem::path(flags.out);
  write_beside(out, run, timeline);
  print(joined(recorded::timeline_text(run, timeline), "\n") + "\n\ntrace: " + out.string() + "\n");
  return kHeld;
}

}  // namespace

void add_trace(CLI::App& app, int& status) {
  auto* command = app.add_subcommand(
      "trace", "what the ranks of a recorded run sent, when, and which waited for which");
  const auto flags = std::make_shared<Flags>();
  command->add_option("FOLDER", flags->folder, "the folder with the ranks' histories")
      ->required()
      ->check(not_empty())
      ->type_name("");
  text_options_of (*command)("--out", flags->out, "FILE",
                             "the trace, for Perfetto or Chrome (trace.json in FOLDER)");
  command->callback([flags, &status] { status = trace(*flags); });
}

}  // namespace lockstep::cli
