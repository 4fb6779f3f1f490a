// The output of every command that reports a run: what it prints, and the files that it writes.
// Without torch.
#pragma once

#include "harness/cases/result.h"
#include "reports/style.h"

#include <filesystem>
#include <string>

namespace lockstep::cli {

// They throw UsageError for a file that cannot be written; the first checks it before there is a
// report.
void check_writable(const std::filesystem::path& path);
void write_report(const std::filesystem::path& path, const std::string& text);
reports::Style style_of_stdout(const std::string& colour);

// Prints a run that is over, where `quiet` its failures and summary only.
void print_run(const Run& run, const std::string& colour, bool quiet);

// Writes these files, and where GitHub Actions runs the program its annotations and summary.
void write_reports(const Run& run, const std::filesystem::path& json,
                   const std::filesystem::path& junit);

}  // namespace lockstep::cli
