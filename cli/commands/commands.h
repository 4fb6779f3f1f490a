// The commands, a file each. Every function adds its command and flags to `app`; the callback that
// CLI11 calls for the chosen command sets `status`, or throws UsageError or NothingSelected.
#pragma once

#include <CLI/CLI.hpp>

namespace lockstep::cli {

struct Known;  // cli/known.h

void add_run(CLI::App& app, const Known& known, int& status);
void add_list(CLI::App& app, const Known& known, int& status);
void add_explain(CLI::App& app, const Known& known, int& status);
void add_replay(CLI::App& app, const Known& known, int& status);
void add_report(CLI::App& app, const Known& known, int& status);
void add_launch(CLI::App& app, int& status);
void add_shard(CLI::App& app, int& status);
void add_calibrate(CLI::App& app, int& status);
void add_doctor(CLI::App& app, int& status);

// The arguments of the program, without the "--" in front of what launch is to start.
std::vector<std::string> without_separator(std::vector<std::string> arguments);

}  // namespace lockstep::cli
