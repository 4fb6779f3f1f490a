#include "cli/output/trace_output.h"

#include "cli/output/report_files.h"
#include "cli/usage.h"
#include "harness/base/text.h"
#include "harness/timeline/timeline.h"
#include "reports/findings/text.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <unistd.h>

namespace lockstep::cli {

namespace {

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

}  // namespace

std::string traced(const recorded::RecordedRun& run, const std::filesystem::path& out) {
  const auto timeline = recorded::timeline_of(run);
  write_beside(out, run, timeline);
  const auto lines =
      reports::lines_of(recorded::timeline_details(run, timeline), style_of_stdout("never"));
  return joined(lines, "\n") + "\n\ntrace: " + out.string() + "\n";
}

}  // namespace lockstep::cli
