// Prints a run and writes the report files that a user requested.
#include "cli/output/report_files.h"

#include "cli/machine.h"
#include "cli/output/github.h"
#include "cli/print.h"
#include "cli/usage.h"
#include "reports/json.h"
#include "reports/junit.h"
#include "reports/terminal.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <unistd.h>

namespace lockstep::cli {

namespace {

[[noreturn]] void cannot_write(const std::filesystem::path& path) {
  throw UsageError(path.string() + ": cannot be written: " + std::strerror(errno));
}

bool wants_colour(const std::string& colour) {
  if (colour != "auto") return colour == "always";
  const char* no_colour = std::getenv("NO_COLOR");
  return is_terminal(STDOUT_FILENO) && !(no_colour && *no_colour);
}

}  // namespace

reports::Style style_of_stdout(const std::string& colour) {
  return {.colour = wants_colour(colour),
          .unicode = locale_is_utf8(),
          .columns = columns_if_terminal(STDOUT_FILENO)};
}

void check_writable(const std::filesystem::path& path) {
  errno = 0;
  if (!path.empty() && !std::ofstream(path, std::ios::app)) cannot_write(path);
}

void write_report(const std::filesystem::path& path, const std::string& text) {
  if (path.empty()) return;
  errno = 0;
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  if (!(out << text << std::flush)) cannot_write(path);
}

void print_run(const Run& run, const std::string& colour, bool quiet) {
  const auto style = style_of_stdout(colour);
  const auto columns = reports::columns_for(run);
  stop_commands();
  if (!quiet) print_shown(reports::headline(run, style));
  for (const auto& result : run.results)
    if (!quiet || is_failure(result.kind) || result.kind == Result::Kind::inconclusive)
      print_shown(reports::result_text(result, run, columns, style));
  print_shown(reports::summary(run, style));
}

void write_reports(const Run& run, const std::filesystem::path& json,
                   const std::filesystem::path& junit) {
  if (on_github()) write_for_github(run);
  write_report(json, reports::file_text(reports::run_json(run)));
  write_report(junit, reports::junit(run));
}

}  // namespace lockstep::cli
