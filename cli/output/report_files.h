// The output of every command that reports a run: what it prints, and the files that a user may
// request of it. A new format is a line of the table in report_files.cpp. Without torch.
#pragma once

#include "harness/cases/result.h"
#include "reports/style.h"

#include <CLI/CLI.hpp>

#include <filesystem>
#include <functional>
#include <map>
#include <string>

namespace lockstep::cli {

// They throw UsageError for a file that cannot be written; the first checks it before there is a
// report.
void check_writable(const std::filesystem::path& path);
void write_report(const std::filesystem::path& path, const std::string& text);

// `colour` is auto, always or never.
reports::Style style_of_stdout(const std::string& colour);

// Adds --color.
void add_colour(CLI::App& command, std::string& colour);

// Adds --format: text, or json, for which the text goes to stderr, and what a program reads to
// stdout.
void add_format(CLI::App& command);

// Prints a run that is over, where `quiet` its failures and summary only.
void print_run(const Run& run, const std::string& colour, bool quiet);

// Copies of the report for the archive: the text of each by the name of its file.
std::map<std::string, std::string> archived_reports(const Run& run);

// The files that a user requested.
class ReportFiles {
 public:
  // Adds a flag for each format, --junit FILE, --json FILE, ..., and --format. The command must not
  // outlive it.
  void add_to(CLI::App& command);

  // Before there is a report. Throws UsageError for a file that cannot be written, or that two
  // formats name.
  void check() const;

  // Writes them, the JSON to stdout too where --format requests it, and where GitHub Actions runs
  // the program its annotations and summary. `page` makes the HTML page, where that is requested.
  void write(const Run& run, const std::function<std::string()>& page) const;

 private:
  std::map<std::string, std::string> files_;  // by flag; without a value: not requested
};

}  // namespace lockstep::cli
