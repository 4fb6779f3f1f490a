#include "cli/flag_defaults.h"

#include "cli/usage.h"
#include "harness/base/text.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <unistd.h>

namespace lockstep::cli {

namespace {

constexpr char kPrefix[] = "LOCKSTEP_";

std::string as_variable(std::string text) {
  for (char& letter : text)
    letter = letter == '-' ? '_' : static_cast<char>(std::toupper(static_cast<uint8_t>(letter)));
  return text;
}

// As if it had been given, but that one on the command line replaces it.
void set_default(CLI::Option& flag, const std::vector<std::string>& values,
                 const std::string& source) {
  const bool takes_many = flag.get_items_expected_max() > 1;
  const auto results = takes_many ? values : std::vector{joined(values, ",")};
  try {
    for (const auto& each : results) flag.add_result(each);
    flag.run_callback();
  } catch (const std::runtime_error& error) {  // CLI11's own, or a UsageError
    throw UsageError(source + ": " + error.what());
  }
  flag.clear();
}

CLI::Option* flag_with_key(CLI::App& command, const std::string& key) {
  const auto flags = flags_of(command);
  const auto found = std::find_if(flags.begin(), flags.end(),
                                  [&](const auto* flag) { return key_of(*flag) == key; });
  return found == flags.end() ? nullptr : *found;
}

std::vector<std::string> names_of(const std::vector<CLI::App*>& commands) {
  std::vector<std::string> names;
  for (const auto* command : commands) names.push_back(command->get_name());
  return names;
}

std::vector<std::string> keys_of(CLI::App& command) {
  std::vector<std::string> keys;
  for (const auto* flag : flags_of(command)) keys.push_back(key_of(*flag));
  return keys;
}

std::vector<CLI::ConfigItem> items_of_file() {
  std::error_code error;
  if (!std::filesystem::exists(kDefaultsFile, error)) return {};
  errno = 0;
  std::ifstream in(kDefaultsFile);
  if (!in || std::filesystem::is_directory(kDefaultsFile, error))
    throw UsageError(std::string(kDefaultsFile) + " cannot be read" +
                     (errno ? std::string(": ") + std::strerror(errno) : ""));
  try {
    return CLI::ConfigTOML().from_config(in);
  } catch (const CLI::Error& wrong) {
    throw UsageError(std::string(kDefaultsFile) + ": " + wrong.what());
  }
}

// CLI11's marks of where a section begins and ends.
bool is_mark(const CLI::ConfigItem& item) {
  return item.name == "++" || item.name == "--";
}

void apply_item(CLI::App& app, const CLI::ConfigItem& item, const std::string& chosen,
                std::vector<std::string>& sources) {
  const std::string file = kDefaultsFile;
  if (item.parents.empty())
    throw UsageError(file + ": " + item.name +
                     " stands in no section; a section names a command: [run]");
  const auto section = joined(item.parents, ".");
  const auto commands = app.get_subcommands([](CLI::App*) { return true; });
  const auto command = std::find_if(commands.begin(), commands.end(),
                                    [&](const auto* each) { return each->get_name() == section; });
  if (command == commands.end()) {
    if (app.get_allow_config_extras() != CLI::config_extras_mode::error) return;
    throw UsageError(file + ": no command is named '" + section + "'" +
                     did_you_mean(section, names_of(commands)));
  }
  if (is_mark(item)) return;
  auto* const flag = flag_with_key(**command, item.name);
  if (!flag)
    throw UsageError(file + ": '" + section + "' has no flag '" + item.name + "'" +
                     did_you_mean(item.name, keys_of(**command)));
  if (section != chosen) return;
  set_default(*flag, item.inputs, file + ": " + item.name + " of [" + section + "]");
  sources.push_back(flag->get_name() + " of " + file);
}

void apply_variables(CLI::App& command, std::vector<std::string>& sources) {
  const auto prefix = kPrefix + as_variable(command.get_name()) + "_";
  std::vector<std::string> known;
  for (auto* const flag : flags_of(command)) {
    known.push_back(variable_of(command.get_name(), *flag));
    const char* const value = std::getenv(known.back().c_str());
    if (!value || !*value) continue;  // As in a shell, an empty one is not set.
    set_default(*flag, {value}, known.back());
    sources.push_back(flag->get_name() + " of " + known.back());
  }
  for (char** each = environ; *each; ++each) {
    const std::string text = *each;
    const auto name = text.substr(0, text.find('='));
    if (name.starts_with(prefix) && std::find(known.begin(), known.end(), name) == known.end())
      throw UsageError("the variable " + name + " names no flag of '" + command.get_name() + "'" +
                       did_you_mean(name, known));
  }
}

}  // namespace

std::string key_of(const CLI::Option& flag) {
  return flag.get_lnames().empty() ? flag.get_snames().front() : flag.get_lnames().front();
}

std::string variable_of(std::string_view command, const CLI::Option& flag) {
  return kPrefix + as_variable(std::string(command)) + "_" + as_variable(key_of(flag));
}

std::vector<CLI::Option*> flags_of(CLI::App& command) {
  std::vector<CLI::Option*> flags;
  for (auto* const flag : command.get_options())
    if (!flag->get_positional() && flag != command.get_help_ptr()) flags.push_back(flag);
  return flags;
}

std::vector<std::string> apply_defaults(CLI::App& app, const std::string& command) {
  std::vector<std::string> sources;
  for (const auto& item : items_of_file()) apply_item(app, item, command, sources);
  apply_variables(*app.get_subcommand(command), sources);
  return sources;
}

}  // namespace lockstep::cli
