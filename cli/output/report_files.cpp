// Prints a run and writes the report files that a user requested.
#include "cli/output/report_files.h"

#include "cli/commands/commands.h"
#include "cli/machine.h"
#include "cli/output/github.h"
#include "cli/print.h"
#include "cli/usage.h"
#include "reports/github.h"
#include "reports/junit.h"
#include "reports/run_file.h"
#include "reports/terminal.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <unistd.h>

namespace lockstep::cli {

namespace {

using Page = std::function<std::string()>;

// A format of the report of a run.
struct Format {
  const char *flag, *help;
  const char* archived;  // the name of its file in the archive; null: it has none
  std::string (*text)(const Run& run, const Page& page);
};
const Format kFormats[] = {
    {"--junit", "write JUnit XML", "junit.xml",
     [](const Run& run, const Page&) { return reports::junit(run); }},
    {"--json", "write everything found as JSON", "run.json",
     [](const Run& run, const Page&) { return reports::file_text(reports::run_json(run)); }},
    {"--html", "write a page with pictures of what happened", nullptr,
     [](const Run&, const Page& page) { return page(); }},
    {"--summary", "write a summary as Markdown", "summary.md",
     [](const Run& run, const Page&) { return reports::step_summary(run); }}};

[[noreturn]] void cannot_write(const std::filesystem::path& path) {
  throw UsageError(path.string() + ": cannot be written: " + std::strerror(errno));
}

// The flag, then no-color.org, then what asks for colour without a terminal, then the terminal.
bool wants_colour(const std::string& colour) {
  if (colour != "auto") return colour == "always";
  if (!variable("NO_COLOR").empty()) return false;
  for (const char* name : {"FORCE_COLOR", "CLICOLOR_FORCE"})
    if (const auto value = variable(name); !value.empty() && value != "0") return true;
  return is_terminal(STDOUT_FILENO) && variable("CLICOLOR") != "0";
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

void add_colour(CLI::App& command, std::string& colour) {
  value_options_of(command)("--color", colour, "WHEN", "auto, always or never",
                            [](const std::string& flag, const std::string& text) {
                              words(flag, text, {"auto", "always", "never"});
                              return text;
                            })
      ->default_str(colour);
}

void add_format(CLI::App& command) {
  const auto choose = [](const std::string& text) {
    words("--format", text, {"text", "json"});
    if (text == "json") print_text_to_stderr();
  };
  command
      .add_option_function<std::string>("--format", choose,
                                        "text, or json: on stdout, and the text on stderr")
      ->type_name("FORMAT")
      ->default_str("text")
      ->check(not_empty());
}

std::map<std::string, std::string> archived_reports(const Run& run) {
  std::map<std::string, std::string> reports;
  for (const auto& format : kFormats)
    if (format.archived) reports.emplace(format.archived, format.text(run, {}));
  return reports;
}

void ReportFiles::add_to(CLI::App& command) {
  const auto option = value_options_of(command);
  for (const auto& format : kFormats) option(format.flag, files_[format.flag], "FILE", format.help);
  add_format(command);
}

void ReportFiles::check() const {
  std::map<std::string, std::string> flags;  // by file
  for (const auto& [flag, file] : files_) {
    if (file.empty()) continue;
    const auto [other, is_new] = flags.emplace(file, flag);
    if (!is_new) throw UsageError(other->second + " and " + flag + " name the same file");
  }
  for (const auto& [file, flag] : flags) check_writable(file);
}

void ReportFiles::write(const Run& run, const Page& page) const {
  if (on_github()) write_for_github(run);
  if (text_is_on_stderr()) print_for_programs(reports::file_text(reports::run_json(run)));
  for (const auto& format : kFormats)
    if (const auto file = files_.find(format.flag); file != files_.end() && !file->second.empty())
      write_report(file->second, format.text(run, page));
}

}  // namespace lockstep::cli
