// Defaults of a command's flags, of the user's choice: `lockstep.toml` in the working folder has a
// section for each command, and a variable LOCKSTEP_COMMAND_FLAG takes precedence over it. A flag
// on the command line takes precedence over both.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace lockstep::cli {

inline constexpr char kDefaultsFile[] = "lockstep.toml";

// "max-fail" of --max-fail, "j" of -j: the key of a flag in the file.
std::string key_of(const CLI::Option& flag);

// "LOCKSTEP_RUN_MAX_FAIL".
std::string variable_of(std::string_view command, const CLI::Option& flag);

// The flags of a command that can have a default.
std::vector<CLI::Option*> flags_of(CLI::App& command);

// Gives the flags of `command` their defaults, and returns where they come from: "--seed of
// lockstep.toml". Throws UsageError for a key, a section or a variable that names no flag, and for
// a value that its flag refuses. Sections of other programs' commands are left alone where `app`
// allows config extras.
std::vector<std::string> apply_defaults(CLI::App& app, const std::string& command);

}  // namespace lockstep::cli
